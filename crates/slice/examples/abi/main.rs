//! Checks the kernel's rseq slice extension as this crate uses it: one line per check. Exits with 1
//! if the kernel or the crate does not do what is written down, 0 if every check passed or was
//! skipped with a reason.
//!
//! For a kernel with the extension (`cargo xtask kernel-test` boots one). Runs anywhere.
#![cfg_attr(target_os = "linux", allow(unsafe_code))]

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod checks;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod sys;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn main() -> std::process::ExitCode {
    checks::main()
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn main() {
    println!("check platform: skipped: not Linux on x86-64 or AArch64");
}
