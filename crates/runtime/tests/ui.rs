//! What `#[evenkeel::main]` and `#[evenkeel::test]` accept, and what they say otherwise.

/// The messages are compared with the `.stderr` file beside each case; after a deliberate change
/// `TRYBUILD=overwrite cargo test -p evenkeel --test ui` writes them anew.
#[test]
fn attributes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail_*.rs");
}
