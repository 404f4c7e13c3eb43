//! What the operating system says about this process.

use std::time::Duration;

/// Reads the CPU time of all threads of this process, in user and system mode together, with the
/// grain of the kernel's clock ticks (commonly 10 ms).
///
/// Returns `None` where `/proc` does not tell.
pub(crate) fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks = ticks(&stat)?;
    let per_second = rustix::param::clock_ticks_per_second();
    (per_second > 0).then(|| Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// The sum of `utime` and `stime`, the 14th and 15th field of `/proc/PID/stat` (see proc(5)). The
/// second field is the program's name in parentheses, which may itself hold blanks and
/// parentheses: counting starts after the last one.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 1200 34 56 78 20 0 5";
        assert_eq!(ticks(stat), Some(1234));
        assert_eq!(ticks("7 (a) S 1 2"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn this_process_has_a_cpu_time() {
        assert!(cpu_time().expect("Linux has /proc") < Duration::from_secs(3600));
    }
}
