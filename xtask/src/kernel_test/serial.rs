//! What the guest wrote on its serial line.

/// What the guest reported, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The kernel's release.
    pub(crate) kernel: String,
    /// How many CPUs the guest had.
    pub(crate) processors: Option<usize>,
    /// The clock that user space reads.
    pub(crate) clock: String,
    /// For how long the kernel extends a slice, in nanoseconds.
    pub(crate) extension_ns: Option<u64>,
    /// The kernel's counters before the first program, and after each.
    pub(crate) counters: Vec<Vec<Counter>>,
    /// The programs that were begun.
    pub(crate) runs: Vec<Run>,
    /// Whether the guest got to its end.
    pub(crate) is_done: bool,
}

/// One of the kernel's counters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) name: String,
    pub(crate) value: u64,
}

/// One program's run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) lines: Vec<String>,
    /// `None` when the guest ended before the program did.
    pub(crate) status: Option<i32>,
}

impl Report {
    /// Reads the serial line's bytes. What the firmware and the kernel write in between, terminal
    /// escapes included, is passed over outside programs' output.
    pub(crate) fn parse(bytes: &[u8]) -> Report {
        let mut report = Report::default();
        let text = without_escapes(&String::from_utf8_lossy(bytes));
        for line in text.lines().map(|line| line.trim_end_matches('\r')) {
            match line.split_once("kernel-test: ") {
                // The firmware's last line has no end.
                Some((_, fact)) => report.fact(fact),
                None => report.output(line),
            }
        }
        report
    }

    /// Returns the run of a program.
    pub(crate) fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.name == name)
    }

    /// Returns by how much each of the kernel's counters grew during a program's run.
    pub(crate) fn growth(&self, name: &str) -> Vec<Counter> {
        let index = self.runs.iter().position(|run| run.name == name);
        let readings = index.and_then(|index| self.counters.get(index..index + 2));
        let Some([before, after]) = readings else {
            return Vec::new();
        };
        let grown = before.iter().zip(after).map(|(before, after)| Counter {
            name: after.name.clone(),
            value: after.value.saturating_sub(before.value),
        });
        grown.collect()
    }

    fn fact(&mut self, fact: &str) {
        let words: Vec<&str> = fact.split_whitespace().collect();
        match words[..] {
            ["kernel", release] => self.kernel = release.to_owned(),
            ["processors", number] => self.processors = number.parse().ok(),
            ["clock", name] => self.clock = name.to_owned(),
            ["extension-ns", number] => self.extension_ns = number.parse().ok(),
            ["counters"] => self.counters.push(Vec::new()),
            ["counter", ref rest @ ..] => {
                if let Some(counters) = self.counters.last_mut() {
                    counters.extend(counter(rest));
                }
            }
            ["begin", name] => self.runs.push(Run {
                name: name.to_owned(),
                lines: Vec::new(),
                status: None,
            }),
            ["end", name, "status", status] => {
                let program = self.runs.last_mut();
                if let Some(program) = program.filter(|program| program.name == name) {
                    program.status = status.parse().ok();
                }
            }
            ["done"] => self.is_done = true,
            _ => {}
        }
    }

    /// A line that is not the guest's own belongs to the program that is running, if one is.
    fn output(&mut self, line: &str) {
        let running = self.runs.last_mut();
        if let Some(program) = running.filter(|program| program.status.is_none()) {
            program.lines.push(line.to_owned());
        }
    }
}

/// Reads `NAME: NUMBER`.
fn counter(words: &[&str]) -> Option<Counter> {
    let [name, value] = words else {
        return None;
    };
    Some(Counter {
        name: name.trim_end_matches(':').to_owned(),
        value: value.parse().ok()?,
    })
}

/// Removes terminal escapes: ESC, and for `ESC [` everything up to the letter that ends it,
/// otherwise one character.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if chars.next() == Some('[') {
            chars.by_ref().find(char::is_ascii_alphabetic);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\u{1b}c\u{1b}[?7l\u{1b}[2J\u{1b}[0mSeaBIOS (version 1)\r\n\
        Booting from ROM..\u{1b}ckernel-test: kernel 7.2.13-rseqvm\r\n\
        kernel-test: processors 2\r\n\
        kernel-test: clock tsc\r\n\
        kernel-test: extension-ns 50000\r\n\
        kernel-test: counters\r\n\
        kernel-test: counter sgrant:                1\r\n\
        [    0.5] a word from the kernel\r\n\
        kernel-test: begin abi\r\n\
        check one: ok\r\n\
        check two: FAILED: why\r\n\
        kernel-test: end abi status 1\r\n\
        kernel-test: counters\r\n\
        kernel-test: counter sgrant:                8\r\n\
        between\r\n\
        kernel-test: begin lock\r\n\
        a table\r\n\
        kernel-test: end lock status 0\r\n\
        kernel-test: counters\r\n\
        kernel-test: counter sgrant:               41\r\n\
        kernel-test: counter an odd line\r\n\
        kernel-test: done\r\n";

    #[test]
    fn a_whole_log_is_read() {
        let report = Report::parse(LOG.as_bytes());
        assert_eq!(report.kernel, "7.2.13-rseqvm");
        assert_eq!(report.processors, Some(2));
        assert_eq!(report.clock, "tsc");
        assert_eq!(report.extension_ns, Some(50_000));
        let grants = |value| Counter {
            name: "sgrant".to_owned(),
            value,
        };
        assert_eq!(report.growth("abi"), [grants(7)]);
        assert_eq!(report.growth("lock"), [grants(33)]);
        assert_eq!(report.growth("other"), []);
        let abi = report.run("abi").unwrap();
        assert_eq!(abi.lines, ["check one: ok", "check two: FAILED: why"]);
        assert_eq!(abi.status, Some(1));
        let lock = report.run("lock").unwrap();
        assert_eq!(
            (&lock.lines[..], lock.status),
            (&["a table".to_owned()][..], Some(0))
        );
        assert!(report.run("between").is_none());
        assert!(report.is_done);
    }

    #[test]
    fn every_prefix_of_a_log_is_read_as_far_as_it_goes() {
        for length in 0..LOG.len() {
            let report = Report::parse(&LOG.as_bytes()[..length]);
            assert!(!report.is_done || length >= LOG.len() - 2, "{length}");
        }
        let cut = LOG.find("kernel-test: end lock").unwrap();
        let report = Report::parse(&LOG.as_bytes()[..cut]);
        let lock = report.run("lock").unwrap();
        assert_eq!(lock.status, None);
        assert_eq!(lock.lines, ["a table"]);
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        let mut bytes = vec![0xff, 0xfe, b'\n'];
        bytes.extend_from_slice(b"kernel-test: processors many\nkernel-test: done\n");
        let report = Report::parse(&bytes);
        assert_eq!(report.processors, None);
        assert!(report.is_done);
    }
}
