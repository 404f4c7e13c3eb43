//! Exact fractions over `i128`: the judge's arithmetic, so that no rounding decides a verdict.
//!
//! Every result is reduced; an operation whose reduced result does not fit panics instead of
//! wrapping. Weights of 1 to 10,000 and trees up to six levels stay far below that limit:
//! each level multiplies a denominator by at most the sum of its weights.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

/// Holds a reduced fraction with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frac {
    num: i128,
    den: i128,
}

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Frac {
    /// Is zero.
    pub const ZERO: Self = Self { num: 0, den: 1 };
    /// Is one.
    pub const ONE: Self = Self { num: 1, den: 1 };

    /// Makes the reduced fraction `num / den`.
    ///
    /// # Panics
    /// When `den` is zero.
    pub fn new(num: i128, den: i128) -> Self {
        assert!(den != 0, "a fraction needs a denominator other than zero");
        let g = gcd(num.unsigned_abs(), den.unsigned_abs());
        let g = i128::try_from(g).expect("the common divisor fits i128");
        let sign = if den < 0 { -1 } else { 1 };
        Self {
            num: sign * (num / g),
            den: sign * (den / g),
        }
    }

    /// Makes a whole number.
    pub const fn whole(n: i128) -> Self {
        Self { num: n, den: 1 }
    }

    /// Returns the numerator of the reduced form.
    pub const fn num(self) -> i128 {
        self.num
    }

    /// Returns the denominator of the reduced form, above zero.
    pub const fn den(self) -> i128 {
        self.den
    }

    /// Tells whether the value is zero.
    pub const fn is_zero(self) -> bool {
        self.num == 0
    }

    /// Returns the smaller of both.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// Rounds down to units of 2^-64; for values from 0 up to 2^32.
    ///
    /// # Panics
    /// When the value is negative or too large.
    pub fn to_fixed64(self) -> u128 {
        assert!(
            self.num >= 0,
            "only values from zero up have this fixed form"
        );
        let (num, den) = (self.num.unsigned_abs(), self.den.unsigned_abs());
        let whole = num / den;
        assert!(whole < 1 << 32, "the value is too large for the fixed form");
        let (mut rest, mut out) = (num % den, whole);
        for _ in 0..64 {
            // `rest < den < 2^127`, so doubling cannot overflow `u128`.
            rest *= 2;
            out = out * 2 + rest / den;
            rest %= den;
        }
        out
    }

    /// Returns the nearest `f64`, for tables only.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

impl Add for Frac {
    type Output = Self;

    /// Adds; panics when the reduced sum does not fit.
    fn add(self, other: Self) -> Self {
        let g = gcd(self.den.unsigned_abs(), other.den.unsigned_abs()) as i128;
        let scale = other.den / g;
        let left = product(self.num, scale);
        let right = product(other.num, self.den / g);
        let sum = left.checked_add(right).expect("fraction sum overflows");
        Self::new(sum, product(self.den, scale))
    }
}

impl Sub for Frac {
    type Output = Self;

    /// Subtracts; panics when the reduced difference does not fit.
    fn sub(self, other: Self) -> Self {
        self + Self {
            num: -other.num,
            den: other.den,
        }
    }
}

impl Mul for Frac {
    type Output = Self;

    /// Multiplies; panics when the reduced product does not fit.
    fn mul(self, other: Self) -> Self {
        let a = Self::new(self.num, other.den);
        let b = Self::new(other.num, self.den);
        Self {
            num: product(a.num, b.num),
            den: product(a.den, b.den),
        }
    }
}

impl Div for Frac {
    type Output = Self;

    /// Divides; panics when `other` is zero or the reduced quotient does not fit.
    fn div(self, other: Self) -> Self {
        let inverse = Self::new(other.den, other.num);
        Mul::mul(self, inverse)
    }
}

fn product(a: i128, b: i128) -> i128 {
    a.checked_mul(b).expect("fraction product overflows")
}

/// Compares `a / b` with `c / d` by their continued fractions, which cannot overflow.
fn cmp_unsigned(a: u128, b: u128, c: u128, d: u128) -> Ordering {
    let (mut a, mut b, mut c, mut d) = (a, b, c, d);
    loop {
        let (q, p) = (a / b, c / d);
        if q != p {
            return q.cmp(&p);
        }
        let (r, s) = (a % b, c % d);
        match (r == 0, s == 0) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            // r/b against s/d is the reverse of b/r against d/s.
            (false, false) => (a, b, c, d) = (d, s, b, r),
        }
    }
}

impl Ord for Frac {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.num.signum(), other.num.signum()) {
            (x, y) if x != y => x.cmp(&y),
            (-1, _) => cmp_unsigned(
                other.num.unsigned_abs(),
                other.den.unsigned_abs(),
                self.num.unsigned_abs(),
                self.den.unsigned_abs(),
            ),
            _ => cmp_unsigned(
                self.num.unsigned_abs(),
                self.den.unsigned_abs(),
                other.num.unsigned_abs(),
                other.den.unsigned_abs(),
            ),
        }
    }
}

impl PartialOrd for Frac {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Frac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.num, self.den)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn compares_beyond_cross_multiplication() {
        let big = i128::MAX / 3;
        assert!(Frac::new(big, big - 1) > Frac::new(big + 1, big));
        assert!(Frac::new(-big, big - 1) < Frac::new(-big - 1, big));
    }

    #[test]
    fn fixed_form_rounds_down() {
        assert_eq!(Frac::new(1, 2).to_fixed64(), 1 << 63);
        assert_eq!(Frac::new(1, 3).to_fixed64(), (1 << 64) / 3);
        assert_eq!(Frac::whole(7).to_fixed64(), 7 << 64);
    }

    proptest! {
        #[test]
        fn agrees_with_cross_multiplication(
            a in -1_000_000i128..1_000_000, b in 1i128..1_000_000,
            c in -1_000_000i128..1_000_000, d in 1i128..1_000_000,
        ) {
            let (x, y) = (Frac::new(a, b), Frac::new(c, d));
            prop_assert_eq!(x.cmp(&y), (a * d).cmp(&(c * b)));
            prop_assert_eq!(x + y, Frac::new(a * d + c * b, b * d));
            prop_assert_eq!(x - y + y, x);
            prop_assert_eq!(x * y, Frac::new(a * c, b * d));
            if c != 0 {
                prop_assert_eq!(x / y * y, x);
            }
        }
    }
}
