#[evenkeel::main(worker_threads)]
async fn no_value() {}

#[evenkeel::main(worker_threads = 1, worker_threads = 2)]
async fn twice() {}

#[evenkeel::main("shared")]
async fn only_a_value() {}

fn main() {}
