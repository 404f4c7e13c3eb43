//! `#[evenkeel::main]` and `#[evenkeel::test]` where they are right; `ui.rs` has what they refuse.

use std::num::ParseIntError;

/// The runtime crate under another path.
mod renamed {
    pub(crate) use evenkeel::*;
}

/// Every option at once. The doc comment, the attribute and the result type stay.
#[allow(non_snake_case)]
#[evenkeel::main(
    worker_threads = 2,
    io = "dedicated",
    thread_name = "attributes",
    thread_stack_size = 1_048_576,
    pin_threads = false,
    max_blocking_threads = 4,
    crate = "evenkeel"
)]
async fn doubled(text: &str) -> Result<u32, ParseIntError> {
    let Number: u32 = text.parse()?;
    assert_eq!(evenkeel::Handle::current().worker_threads(), 2);
    Ok(evenkeel::spawn(async move { 2 * Number })
        .await
        .expect("no panic"))
}

/// Visibility, generics and patterns in arguments stay.
#[evenkeel::main(worker_threads = 1, io = "off")]
pub async fn item<T: Clone>(items: &[T], mut at: usize) -> Option<T> {
    at += 1;
    items.get(at - 1).cloned()
}

#[renamed::main(crate = "crate::renamed", worker_threads = 1)]
async fn under_another_path() -> String {
    let task = renamed::spawn(async { std::thread::current().name().map(str::to_owned) });
    task.await.expect("no panic").unwrap_or_default()
}

#[evenkeel::main(worker_threads = 1, thread_name = "chosen")]
async fn thread_name() -> Option<String> {
    let task = evenkeel::spawn(async { std::thread::current().name().map(str::to_owned) });
    task.await.expect("no panic")
}

#[test]
fn main_builds_what_its_options_say() {
    assert_eq!(doubled("7"), Ok(14));
    assert!(doubled("seven").is_err());
    assert_eq!(item(&[3, 4], 1), Some(4));
    assert_eq!(item::<u8>(&[], 0), None);
    assert!(!under_another_path().contains("chosen"));
    assert!(
        thread_name()
            .expect("workers have names")
            .contains("chosen")
    );
}

#[evenkeel::test]
async fn a_test_has_one_worker() {
    assert_eq!(evenkeel::Handle::current().worker_threads(), 1);
}

#[evenkeel::test(worker_threads = 3)]
async fn a_test_may_ask_for_more() {
    assert_eq!(evenkeel::Handle::current().worker_threads(), 3);
}

#[evenkeel::test]
async fn a_test_may_return_an_error() -> Result<(), ParseIntError> {
    let seven: u32 = "7".parse()?;
    assert_eq!(seven, 7);
    Ok(())
}

#[evenkeel::test]
#[should_panic(expected = "this test panics")]
async fn other_attributes_stay() {
    panic!("this test panics");
}
