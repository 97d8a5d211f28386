//! [`Quantity`]: Kubernetes amounts (`1500m`, `2Gi`, `1e3`) with Go's exact arithmetic.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fixed-point amount as Kubernetes' `resource.Quantity` holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

/// Text that is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression")]
pub struct QuantityError;

impl Quantity {
    /// The amount in whole units, rounded up.
    #[must_use]
    pub fn value(&self) -> i64 {
        i64::try_from(
            self.nanos.div_euclid(1_000_000_000)
                + i128::from(self.nanos.rem_euclid(1_000_000_000) != 0),
        )
        .unwrap_or(i64::MAX)
    }

    /// The amount in thousandths, rounded up.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        i64::try_from(
            self.nanos.div_euclid(1_000_000) + i128::from(self.nanos.rem_euclid(1_000_000) != 0),
        )
        .unwrap_or(i64::MAX)
    }

    /// The amount as an integer if Go's `AsInt64` gives one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        (self.nanos % 1_000_000_000 == 0).then(|| self.value())
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self {
            nanos: i128::from(value) * 1_000_000_000,
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<i64>()
            .map(Self::from)
            .map_err(|_| QuantityError)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
