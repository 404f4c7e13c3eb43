//! Weights: the kernel's nice table, and the conversions that use it.
//!
//! A step of nice is worth about a factor of 1.25 in weight, so a task one step nicer than its
//! only competitor receives about 10 % less CPU. [`NICE_TO_WEIGHT`] holds the kernel's rounded
//! values (`sched_prio_to_weight` in `kernel/sched/core.c`); the assertions below pin its shape.

/// Weight of a task of nice 0 (kernel: `NICE_0_LOAD` scaled down).
pub const NICE_0_WEIGHT: u32 = 1024;

/// Weight of an idle-class entity (kernel: `WEIGHT_IDLEPRIO`).
pub const IDLE_WEIGHT: u32 = 3;

/// Lowest (most favourable) and highest nice value.
pub const NICE_RANGE: core::ops::RangeInclusive<i8> = -20..=19;

/// Lowest and highest weight of a group (cgroup v2 `cpu.weight`).
pub const GROUP_WEIGHT_RANGE: core::ops::RangeInclusive<u32> = 1..=10_000;

/// Weight of a group that asks for none (cgroup v2 `cpu.weight`).
pub const GROUP_WEIGHT_DEFAULT: u32 = 100;

/// Weight of each nice value, from −20 to 19.
#[rustfmt::skip]
pub const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291,
    29154, 23254, 18705, 14949, 11916,
     9548,  7620,  6100,  4904,  3906,
     3121,  2501,  1991,  1586,  1277,
     1024,   820,   655,   526,   423,
      335,   272,   215,   172,   137,
      110,    87,    70,    56,    45,
       36,    29,    23,    18,    15,
];

/// 2^32 / weight of each nice value, rounded down (kernel: `sched_prio_to_wmult`, whose
/// entries differ from these by rounding).
pub const NICE_TO_INVERSE: [u32; 40] = inverses();

const fn inverses() -> [u32; 40] {
    let mut table = [0; 40];
    let mut i = 0;
    while i < table.len() {
        table[i] = ((1u64 << 32) / NICE_TO_WEIGHT[i] as u64) as u32;
        i += 1;
    }
    table
}

const _: () = {
    assert!(NICE_TO_WEIGHT[0] == 88761 && NICE_TO_WEIGHT[20] == 1024 && NICE_TO_WEIGHT[39] == 15);
    // Kernel values of sched_prio_to_wmult where the division is exact or rounds down.
    assert!(NICE_TO_INVERSE[0] == 48388 && NICE_TO_INVERSE[20] == 4_194_304);
    assert!(NICE_TO_INVERSE[39] == 286_331_153);
    let mut i = 1;
    while i < NICE_TO_WEIGHT.len() {
        // Each step divides by 1.25, within the rounding of the small weights.
        let (a, b) = (NICE_TO_WEIGHT[i - 1] as u64 * 100, NICE_TO_WEIGHT[i] as u64);
        assert!(a / b >= 118 && a / b <= 130);
        i += 1;
    }
};

/// Returns the weight of a nice value; values outside [`NICE_RANGE`] are clamped.
#[inline]
pub const fn nice_to_weight(nice: i8) -> u32 {
    let nice = if nice < -20 {
        -20
    } else if nice > 19 {
        19
    } else {
        nice
    };
    NICE_TO_WEIGHT[(nice + 20) as usize]
}

/// Converts execution time to virtual time: `delta_ns` × 1024 / `weight`, rounded down
/// (kernel: `calc_delta_fair`, which multiplies by a rounded inverse; this division is exact).
#[inline]
pub const fn calc_delta_fair(delta_ns: u64, weight: u32) -> u64 {
    if weight == NICE_0_WEIGHT {
        delta_ns
    } else {
        (delta_ns as u128 * NICE_0_WEIGHT as u128 / weight as u128) as u64
    }
}

/// Returns the kernel's `shares` of a cgroup v2 weight: round(weight × 1024 / 100).
pub const fn shares_from_group_weight(weight: u32) -> u32 {
    (weight * NICE_0_WEIGHT + GROUP_WEIGHT_DEFAULT / 2) / GROUP_WEIGHT_DEFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_is_clamped() {
        assert_eq!(nice_to_weight(i8::MIN), 88761);
        assert_eq!(nice_to_weight(0), 1024);
        assert_eq!(nice_to_weight(i8::MAX), 15);
    }

    #[test]
    fn delta_fair_is_exact() {
        assert_eq!(calc_delta_fair(1000, 1024), 1000);
        assert_eq!(calc_delta_fair(1_000_000, 15), 68_266_666);
        assert_eq!(calc_delta_fair(1_000_000, 88761), 11_536);
        assert_eq!(calc_delta_fair(u64::MAX >> 11, 512), (u64::MAX >> 11) * 2);
    }

    #[test]
    fn shares_round_as_the_kernel() {
        for (weight, shares) in [(1, 10), (100, 1024), (33, 338), (10_000, 102_400)] {
            assert_eq!(shares_from_group_weight(weight), shares);
        }
    }
}
