//! Text tables with aligned columns, and times in them.

pub use evenkeel_bench::stats::Table;

/// Writes a time in nanoseconds with a fitting unit and about three digits.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e4 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    //! Known answers.
    use super::*;

    #[test]
    fn times_have_fitting_units() {
        let cases = [
            (412.4, "412 ns"),
            (1234.0, "1.23 µs"),
            (56_789.0, "57 µs"),
            (2e6, "2.0 ms"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns), text);
        }
        assert_eq!(time(1.5e9), "1.50 s");
    }
}
