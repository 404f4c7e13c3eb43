//! What this machine must have.

use std::process::Command;

use super::failure::Failure;

/// Debian packages that the steps use. The kernel's build wants the first seven, the guest busybox.
const PACKAGES: &[&str] = &[
    "gcc",
    "make",
    "flex",
    "bison",
    "bc",
    "libelf-dev",
    "xz-utils",
    "busybox-static",
    "qemu-system-x86",
];

/// Checks that the steps can be taken here.
///
/// # Errors
///
/// [`Failure::CannotRun`] with one line: what is missing, and the command that installs it.
pub(crate) fn check() -> Result<(), Failure> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let why = "the kernel is built by and for Linux on x86-64";
        return Err(Failure::CannotRun(why.to_owned()));
    }
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${db:Status-Status} ${Package}\n"])
        .args(PACKAGES)
        .output();
    let Ok(output) = output else {
        let why = "dpkg-query does not start; the steps need a Debian system";
        return Err(Failure::CannotRun(why.to_owned()));
    };
    let missing = missing(PACKAGES, &String::from_utf8_lossy(&output.stdout));
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    Err(Failure::CannotRun(format!(
        "these Debian packages are missing: {names}. To install them: \
         apt-get install --no-install-recommends {names}"
    )))
}

/// Returns those of `needed` that dpkg-query does not list as installed.
fn missing<'a>(needed: &[&'a str], listed: &str) -> Vec<&'a str> {
    let is_installed = |name: &str| {
        listed
            .lines()
            .any(|line| line.strip_prefix("installed ") == Some(name))
    };
    needed
        .iter()
        .copied()
        .filter(|name| !is_installed(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count() {
        let listed = "installed gcc\nconfig-files flex\ninstalled bison\n";
        let needed = ["gcc", "flex", "bison", "bc"];
        assert_eq!(missing(&needed, listed), ["flex", "bc"]);
        assert!(missing(&["bison"], listed).is_empty());
    }
}
