//! Attribute macros of the `evenkeel` runtime: [`macro@main`] and [`macro@test`].
//!
//! An annotated `async fn` becomes an ordinary function that builds one `evenkeel::Runtime`, runs
//! the body on it with `block_on`, and shuts the runtime down when the body returns. Nothing else
//! of the function changes: its name, visibility, attributes, generics and return type stay.
//!
//! Use the macros through the runtime crate (`#[evenkeel::main]`), which re-exports them.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | reads `(worker_threads = 2, io = "shared", …)` and reports what is wrong in it |
//! | `function` | reads the function, keeping its body as unparsed tokens |
//! | `expand` | puts both together into the synchronous function |

#![forbid(unsafe_code)]

mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

/// Runs an `async fn` on an `evenkeel` runtime, as the program's entry point.
///
/// The function may have any name; one called `main` takes no arguments.
///
/// # Options
///
/// | option | value | default |
/// |---|---|---|
/// | `worker_threads` | integer, at least 1 | the CPUs that this process may use |
/// | `io` | `"shared"`, `"dedicated"` or `"off"` | `"shared"` |
/// | `thread_name` | string | the runtime's own |
/// | `thread_stack_size` | integer, in bytes, at least 1 | the runtime's own |
/// | `pin_threads` | `true` or `false` | `false` |
/// | `max_blocking_threads` | integer, at least 1 | the runtime's own |
/// | `crate` | string: a path under which the runtime crate is known here | `"::evenkeel"` |
///
/// # Examples
///
/// ```
/// #[evenkeel::main]
/// async fn main() {
///     let answer = evenkeel::spawn(async { 42 }).await.expect("the task does not panic");
///     assert_eq!(answer, 42);
/// }
/// ```
///
/// With options, and an error as the result:
///
/// ```
/// #[evenkeel::main(worker_threads = 2, io = "shared")]
/// async fn main() -> Result<(), std::num::ParseIntError> {
///     let n: u32 = "7".parse()?;
///     assert_eq!(n, 7);
///     Ok(())
/// }
/// ```
///
/// # Panics
///
/// The generated function panics when the runtime cannot be built, for instance because the
/// system refuses to start a thread.
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(expand::Kind::Main, args.into(), item.into()).into()
}

/// Runs an `async fn` on an `evenkeel` runtime of its own, as a test.
///
/// Takes the options of [`macro@main`]; `worker_threads` is 1 unless given, so that a test suite,
/// which runs many tests at once, does not start many threads for each.
///
/// # Examples
///
/// ```no_run
/// #[evenkeel::test]
/// async fn adds() {
///     assert_eq!(evenkeel::spawn(async { 1 + 1 }).await.expect("no panic"), 2);
/// }
///
/// #[evenkeel::test(worker_threads = 2)]
/// async fn adds_on_two_workers() {
///     assert_eq!(evenkeel::spawn(async { 1 + 1 }).await.expect("no panic"), 2);
/// }
/// ```
///
/// # Panics
///
/// The generated test panics when the runtime cannot be built.
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(expand::Kind::Test, args.into(), item.into()).into()
}
