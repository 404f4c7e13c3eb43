#[evenkeel::main]
struct NotAFunction;

#[evenkeel::test]
async fn no_body();

fn main() {}
