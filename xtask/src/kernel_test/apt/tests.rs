//! Tests of rewriting apt's sources. The hosts are those reserved for examples.

use super::*;

fn deb822(text: &str) -> (bool, String) {
    (true, text.to_owned())
}

fn list(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

#[test]
fn a_stanza_keeps_everything_but_type_suite_and_components() {
    let file = deb822(
        "# the archive\n\
         Types: deb deb-src\n\
         URIs: http://example.org/debian\n\
         # a comment inside\n\
         Suites: bookworm\n bookworm-updates\n\
         Components: main contrib\n\
         Signed-By: /keys/debian-archive-keyring.gpg\n\
         \n\
         Types: deb\n\
         URIs: http://example.org/security\n\
         Suites: bookworm-security\n\
         Components: main\n",
    );
    let source = kernel_source("bookworm", &[file]).unwrap();
    assert_eq!(source.name, "kernel.sources");
    assert_eq!(
        source.text,
        "Types: deb\nURIs: http://example.org/debian\nSuites: sid\nComponents: main\n\
         Signed-By: /keys/debian-archive-keyring.gpg\n"
    );
}

#[test]
fn an_embedded_key_stays_whole() {
    let file = deb822(
        "Types: deb\nURIs: http://example.org/debian\nSuites: trixie\nComponents: main\n\
         Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF:x\n",
    );
    let source = kernel_source("trixie", &[file]).unwrap();
    assert!(source.text.ends_with("KEY BLOCK-----\n .\n mQINBF:x\n"));
    assert!(source.text.contains("Suites: sid\nComponents: main\n"));
}

#[test]
fn a_line_keeps_its_options_and_address() {
    for (line, expected) in [
        (
            "deb http://example.org/debian bookworm main contrib # ours",
            "deb http://example.org/debian sid main\n",
        ),
        (
            "deb [ arch=amd64 signed-by=/keys/debian.gpg ] http://example.org/debian bookworm main",
            "deb [arch=amd64 signed-by=/keys/debian.gpg] http://example.org/debian sid main\n",
        ),
        (
            "  deb\thttp://example.org/debian  bookworm  main",
            "deb http://example.org/debian sid main\n",
        ),
    ] {
        let source = kernel_source("bookworm", &[list(line)]).unwrap();
        assert_eq!(source.name, "kernel.list");
        assert_eq!(source.text, expected);
    }
}

#[test]
fn what_is_not_this_release_of_debian_is_left_out() {
    for line in [
        "# deb http://example.org/debian bookworm main",
        "deb-src http://example.org/debian bookworm main",
        "deb http://example.org/debian bookworm-updates main",
        "deb http://example.org/other bookworm stable",
        "deb http://example.org/debian bookworm",
        "",
    ] {
        assert_eq!(kernel_source("bookworm", &[list(line)]), None, "{line}");
    }
    for text in [
        "Types: deb-src\nURIs: http://example.org\nSuites: bookworm\nComponents: main\n",
        "Types: deb\nURIs: http://example.org\nSuites: trixie\nComponents: main\n",
        "Types: deb\nURIs: http://example.org\nSuites: bookworm\nComponents: edge\n",
        "Enabled: no\nTypes: deb\nURIs: http://example.org\nSuites: bookworm\nComponents: main\n",
        "Types: deb\nURIs: http://example.org\nSuites: ./\n",
    ] {
        assert_eq!(kernel_source("bookworm", &[deb822(text)]), None, "{text}");
    }
}

#[test]
fn a_source_signed_by_debian_comes_first() {
    let other = list("deb http://example.org/other bookworm main");
    let debian = deb822(
        "Types: deb\nURIs: http://example.org/debian\nSuites: bookworm\nComponents: main\n\
         Signed-By: /keys/debian-archive-keyring.gpg\n",
    );
    let source = kernel_source("bookworm", &[other.clone(), debian]).unwrap();
    assert!(source.text.contains("example.org/debian"));
    assert!(kernel_source("bookworm", &[other]).is_some());
}
