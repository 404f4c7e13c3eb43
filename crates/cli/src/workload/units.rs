//! Values with units: `"1.5ms"`, `"64KiB"`.

use std::time::Duration;

/// The units of a duration with their length in nanoseconds.
const DURATION_UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3_600e9),
];

/// The units of a size with their length in bytes.
const SIZE_UNITS: [(&str, f64); 7] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// The longest duration and the largest size accepted anywhere, in nanoseconds and bytes: small
/// enough for every later conversion to be exact in an `f64`.
const LARGEST: f64 = 9e15;

/// Reads a duration: a number and a unit, such as `10s`, `1.5ms` or `200 us`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    quantity(text, &DURATION_UNITS).map(Duration::from_nanos)
}

/// Reads a size in bytes: a number and a unit, such as `64KiB` or `1.5 MB`.
pub(crate) fn size(text: &str) -> Option<u64> {
    quantity(text, &SIZE_UNITS)
}

/// The units that [`duration`] takes, for messages.
pub(crate) fn duration_units() -> String {
    names(&DURATION_UNITS)
}

/// The units that [`size`] takes, for messages.
pub(crate) fn size_units() -> String {
    names(&SIZE_UNITS)
}

/// Writes a duration in the largest unit that keeps it at least 1, as briefly as it is exact.
pub(crate) fn show_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let (unit, length) = match ns {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        1_000_000_000..60_000_000_000 => ("s", 1_000_000_000),
        _ if ns.is_multiple_of(3_600_000_000_000) => ("h", 3_600_000_000_000),
        _ if ns.is_multiple_of(60_000_000_000) => ("min", 60_000_000_000),
        _ => ("s", 1_000_000_000_u128),
    };
    let whole = ns / length;
    let rest = ns % length;
    if rest == 0 {
        return format!("{whole}{unit}");
    }
    let digits = length.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

/// Reads a plain decimal number with one of the units.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let (_, length) = units.iter().find(|(name, _)| *name == unit)?;
    let value = (number * length).round();
    (value <= LARGEST).then_some(value as u64)
}

/// The names of units, joined for a message.
fn names(units: &[(&str, f64)]) -> String {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_duration(text: &str, expected_ns: Option<u64>) {
        assert_eq!(
            duration(text),
            expected_ns.map(Duration::from_nanos),
            "{text}"
        );
    }

    #[test]
    fn durations() {
        check_duration("10s", Some(10_000_000_000));
        check_duration("1.5ms", Some(1_500_000));
        check_duration(" 200 us ", Some(200_000));
        check_duration("200µs", Some(200_000));
        check_duration("0s", Some(0));
        check_duration("2min", Some(120_000_000_000));
        check_duration("1h", Some(3_600_000_000_000));
        check_duration("0.1ns", Some(0));
        check_duration("10", None);
        check_duration("s", None);
        check_duration("", None);
        check_duration("-1s", None);
        check_duration("1e3s", None);
        check_duration("1.2.3s", None);
        check_duration("10 seconds", None);
        check_duration("99999999999h", None);
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(size("1.5 MB"), Some(1_500_000));
        assert_eq!(size("17B"), Some(17));
        assert_eq!(size("17"), None);
        assert_eq!(size("17kb"), None);
    }

    #[test]
    fn durations_are_shown_as_they_are_read() {
        for text in [
            "0s",
            "10s",
            "1.5ms",
            "200us",
            "90s",
            "2min",
            "3h",
            "1.000000001s",
            "61.5s",
        ] {
            let read = duration(text).expect(text);
            assert_eq!(duration(&show_duration(read)), Some(read), "{text}");
        }
        assert_eq!(show_duration(Duration::from_micros(1500)), "1.5ms");
        assert_eq!(show_duration(Duration::from_secs(7200)), "2h");
    }
}
