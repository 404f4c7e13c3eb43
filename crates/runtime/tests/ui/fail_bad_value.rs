#[evenkeel::main(worker_threads = 0)]
async fn zero() {}

#[evenkeel::main(worker_threads = "2")]
async fn text() {}

#[evenkeel::main(worker_threads = -1)]
async fn negative() {}

#[evenkeel::main(io = "sharde")]
async fn misspelt_io() {}

#[evenkeel::main(io = Shared)]
async fn io_without_quotes() {}

#[evenkeel::main(pin_threads = 1)]
async fn not_a_bool() {}

#[evenkeel::main(thread_name = 'n')]
async fn not_a_string() {}

#[evenkeel::main(crate = "not a path")]
async fn not_a_path() {}

#[evenkeel::main(crate = 3)]
async fn not_a_path_string() {}

fn main() {}
