#[evenkeel::main(worker_thread = 2)]
async fn misspelt() {}

#[evenkeel::main(flavor = "current_thread")]
async fn flavor() {}

#[evenkeel::main(start_paused = true)]
async fn paused() {}

#[evenkeel::test(threads = 1)]
async fn unknown_in_test() {}

fn main() {}
