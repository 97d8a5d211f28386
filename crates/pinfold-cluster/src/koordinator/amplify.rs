//! Amplification: a node that offers more CPU (or memory) than it has.
//!
//! Mirrors `Amplify` and `AmplifyResourceList`. A ratio above 1 multiplies the allocatable amounts of the node; the
//! request of a pod that binds CPUs is multiplied as well, because bound CPUs cannot be overcommitted.

use std::collections::BTreeMap;

use super::amounts::{Amounts, CPU};
use pinfold_core::name::ResourceName;

/// Amplification ratios by resource. A ratio of 1 or less has no effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratios(pub BTreeMap<ResourceName, f64>);

impl Ratios {
    /// The ratio of `resource`; 0 (no effect) if it has none.
    #[must_use]
    pub fn of(&self, resource: &str) -> f64 {
        self.0.get(resource).copied().unwrap_or(0.0)
    }

    /// The ratio of CPU.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.of(CPU)
    }

    /// Multiplies every amount that has a ratio.
    #[must_use]
    pub fn amplify(&self, amounts: &Amounts) -> Amounts {
        amounts
            .iter()
            .map(|(name, amount)| (name.clone(), amplify(amount, self.of(name.as_str()))))
            .collect()
    }
}

/// `origin` times `ratio`, rounded up, if the ratio is above 1.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "Koordinator computes in floating point; a float converts with saturation"
)]
pub fn amplify(origin: i64, ratio: f64) -> i64 {
    // A NaN is not above 1 either.
    if ratio > 1.0 {
        (origin as f64 * ratio).ceil() as i64
    } else {
        origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_read_from_json_to_its_last_digit() {
        let ratio: f64 = serde_json::from_str("1.8900000000000001").expect("a number");
        assert_eq!(amplify(4000, ratio), 7561);
        assert_eq!(amplify(4000, 1.89), 7560);
    }

    #[test]
    fn only_a_ratio_above_one_amplifies_and_rounds_up() {
        let table = [
            (1000, 1.5, 1500),
            (1001, 1.5, 1502),
            (1000, 1.0, 1000),
            (1000, 0.5, 1000),
        ];
        for (origin, ratio, expected) in table {
            assert_eq!(amplify(origin, ratio), expected, "{origin} x {ratio}");
        }
        assert_eq!(amplify(7, f64::NAN), 7);
        assert_eq!(amplify(i64::MAX, 10.0), i64::MAX);
    }
}
