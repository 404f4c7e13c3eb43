#[evenkeel::test]
async fn test_with_an_argument(_number: u32) {}

#[evenkeel::main]
async fn main(_arguments: Vec<String>) {}
