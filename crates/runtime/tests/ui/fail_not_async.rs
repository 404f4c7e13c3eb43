#[evenkeel::main]
fn not_async() {}

#[evenkeel::test]
fn not_async_test() {}

fn main() {}
