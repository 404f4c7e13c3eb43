//! Weighted max-min division of an amount among claimants with caps.

use crate::leaf::mul_div;

/// A claimant in [`fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Weight, at least 1.
    pub weight: u64,
    /// Most that it can take.
    pub cap: u64,
    /// Result: what it gets.
    pub share: u64,
    /// For the caller; not used here.
    pub id: u32,
}

/// Divides `amount` by weighted max-min fairness and returns what nobody can take.
///
/// There is a water level λ with share_i = min(cap_i, λ × weight_i) and Σ share_i =
/// min(amount, Σ cap_i). With the claims in order of cap_i / weight_i, the saturated ones come
/// first:
///
/// ```text
/// while cap_i / weight_i ≤ rest / (Σ weight of i and those behind):  share_i = cap_i
/// ```
///
/// and the others divide the rest by weight. Rounding errors are below 1 and are passed on, so
/// that the sum is exact. Reorders the claims; takes O(n log n) and does not allocate.
/// Amounts and caps must be below 2^63, weights below 2^32.
pub fn fill(amount: u64, claims: &mut [Claim]) -> u64 {
    let total: u64 = claims
        .iter()
        .fold(0, |sum, claim| sum.saturating_add(claim.cap));
    if total <= amount {
        claims.iter_mut().for_each(|claim| claim.share = claim.cap);
        return amount - total;
    }
    claims.sort_unstable_by(|a, b| {
        let (left, right) = (product(a.cap, b.weight), product(b.cap, a.weight));
        left.cmp(&right).then(a.id.cmp(&b.id))
    });
    let (mut rest, mut weights) = (amount, claims.iter().map(|claim| claim.weight).sum::<u64>());
    for claim in claims {
        let level = mul_div(rest, claim.weight, weights.max(1));
        claim.share = level.min(claim.cap);
        rest -= claim.share;
        weights -= claim.weight;
    }
    rest
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn shares(amount: u64, claims: &[(u64, u64)]) -> (Vec<u64>, u64) {
        let mut claims: Vec<Claim> = (0..)
            .zip(claims)
            .map(|(id, &(weight, cap))| Claim {
                weight,
                cap,
                share: 0,
                id,
            })
            .collect();
        let rest = fill(amount, &mut claims);
        claims.sort_by_key(|claim| claim.id);
        (claims.iter().map(|claim| claim.share).collect(), rest)
    }

    #[test]
    fn known_cases() {
        assert_eq!(shares(100, &[(3, 100), (1, 100)]), (Vec::from([75, 25]), 0));
        assert_eq!(
            shares(200, &[(100, 100), (1, 200)]),
            (Vec::from([100, 100]), 0)
        );
        assert_eq!(shares(200, &[(1, 50), (1, 20)]), (Vec::from([50, 20]), 130));
        assert_eq!(
            shares(90, &[(1, 10), (1, 100), (3, 100)]),
            (Vec::from([10, 20, 60]), 0)
        );
        assert_eq!(shares(5, &[]), (Vec::new(), 5));
    }

    proptest! {
        #[test]
        fn is_max_min_fair(
            amount in 0u64..1_000_000,
            claims in prop::collection::vec((1u64..10_000, 0u64..200_000), 1..40),
        ) {
            let (shares, rest) = shares(amount, &claims);
            prop_assert_eq!(shares.iter().sum::<u64>() + rest, amount);
            let hungry: Vec<f64> = claims.iter().zip(&shares)
                .filter(|((_, cap), share)| *share < cap)
                .map(|((weight, _), share)| *share as f64 / *weight as f64)
                .collect();
            prop_assert!(rest == 0 || hungry.is_empty());
            // All who want more stand at the same level, and nobody who is full is above it.
            let level = hungry.iter().copied().fold(0.0, f64::max);
            for ((weight, cap), share) in claims.iter().zip(&shares) {
                prop_assert!(share <= cap);
                let (own, weight) = (*share as f64, *weight as f64);
                if hungry.is_empty() {
                    prop_assert_eq!(share, cap);
                } else if share < cap {
                    prop_assert!((own - level * weight).abs() <= 1.0 + 1e-6 * own + weight);
                } else {
                    prop_assert!(own <= level * weight + 1.0 + weight);
                }
            }
        }
    }
}
