#[evenkeel::main(io = "none", workers = 2)]
fn three_errors_at_once() {}

fn main() {}
