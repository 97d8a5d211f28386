//! [`Quantity`]: Kubernetes quantities (`1500m`, `2Gi`, `1e3`) with Go's exact arithmetic.
//!
//! Mirrors `Quantity` of `k8s.io/apimachinery/pkg/api/resource`. That type keeps a short amount as a 64-bit integer
//! with a power of ten, and everything else (more than 18 digits, a fraction before a binary suffix) as a big decimal.
//! The difference is visible: a big decimal is never "an integer" ([`Quantity::as_i64`]), even if its amount is whole,
//! and the two round negative amounts differently. So both forms are kept here, the decimal one with 38 digits where Go
//! has no limit.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod decimal;
mod json;
mod parse;
mod print;
#[cfg(test)]
mod tests;

use decimal::{Decimal, power_of_ten};
pub use parse::QuantityError;

/// A fixed-point amount as Kubernetes' `resource.Quantity` holds it.
///
/// Compares by amount: `1`, `1000m` and `1e0` are equal. The suffix family of the parsed text only decides how it is
/// printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: QuantityFormat,
}

/// The two forms of an amount.
#[derive(Clone, Copy, Debug)]
enum Amount {
    /// `value * 10^exponent`, the form of nearly all amounts.
    Integer { value: i64, exponent: i32 },
    /// Amounts that do not fit into the integer form.
    Decimal(Decimal),
}

impl Default for Amount {
    fn default() -> Self {
        Amount::Integer {
            value: 0,
            exponent: 0,
        }
    }
}

/// The suffix family of an amount's text, parsed and printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QuantityFormat {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    #[default]
    DecimalSi,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity {
        amount: Amount::Integer {
            value: 0,
            exponent: 0,
        },
        format: QuantityFormat::DecimalSi,
    };

    /// A quantity in thousandths: `milli(1500)` is one and a half.
    #[must_use]
    pub fn milli(value: i64) -> Self {
        Self {
            amount: Amount::Integer {
                value,
                exponent: -3,
            },
            format: QuantityFormat::DecimalSi,
        }
    }

    /// A quantity in bytes, printed with binary suffixes: `512Mi`.
    #[must_use]
    pub fn bytes(value: i64) -> Self {
        Self {
            amount: Amount::Integer { value, exponent: 0 },
            format: QuantityFormat::BinarySi,
        }
    }

    /// The amount in whole units, rounded up. Mirrors `Value`.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded up. Mirrors `MilliValue`.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount in units of `10^exponent`, rounded up. Mirrors `ScaledValue`.
    ///
    /// An amount that does not fit 64 bits gives what Go gives: its low bits, or 0.
    pub(crate) fn scaled_value(&self, exponent: i32) -> i64 {
        match self.amount {
            Amount::Integer {
                value,
                exponent: own,
            } => {
                let shift = i64::from(own) - i64::from(exponent);
                match u32::try_from(shift) {
                    Ok(up) => scale_up(value, up).0,
                    Err(_) => scale_down(value, shift.unsigned_abs()),
                }
            }
            Amount::Decimal(decimal) => decimal.scaled_value(exponent),
        }
    }

    /// The amount as an integer if Go's fast path finds one. Mirrors `AsInt64`.
    ///
    /// `None` does not mean that the amount is not whole: `1.0`, `2000m` and `1.5Gi` are `None` too.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self.amount {
            Amount::Integer { value, exponent } => match scale_up(value, exponent.try_into().ok()?)
            {
                (scaled, true) => Some(scaled),
                (_, false) => None,
            },
            Amount::Decimal(_) => None,
        }
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// Whether it is above zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.sign() > 0
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i128 {
        self.decimal().mantissa.signum()
    }

    fn decimal(&self) -> Decimal {
        match self.amount {
            Amount::Integer { value, exponent } => Decimal {
                mantissa: i128::from(value),
                exponent,
            },
            Amount::Decimal(decimal) => decimal,
        }
    }

    /// The sum, printed with the suffix family of the left side unless that is zero.
    fn plus(self, other: Self) -> Self {
        let format = match self.is_zero() {
            true => other.format,
            false => self.format,
        };
        let amount = self
            .integer_sum(other)
            .unwrap_or_else(|| Amount::Decimal(self.decimal().sum(other.decimal())));
        Self { amount, format }
    }

    /// The sum in integer form, if both sides have it and it fits.
    fn integer_sum(self, other: Self) -> Option<Amount> {
        let (
            Amount::Integer { value, exponent },
            Amount::Integer {
                value: other_value,
                exponent: other_exponent,
            },
        ) = (self.amount, other.amount)
        else {
            return None;
        };
        if other_value == 0 {
            return Some(self.amount);
        }
        if value == 0 {
            return Some(other.amount);
        }
        let finest = exponent.min(other_exponent);
        let at_finest = |value, exponent: i32| {
            let up = u32::try_from(i64::from(exponent) - i64::from(finest)).ok()?;
            let (scaled, fits) = scale_up(value, up);
            fits.then_some(scaled)
        };
        Some(Amount::Integer {
            value: at_finest(value, exponent)?
                .checked_add(at_finest(other_value, other_exponent)?)?,
            exponent: finest,
        })
    }

    fn negated(self) -> Self {
        let amount = match self.amount {
            Amount::Integer { value, exponent } => match value.checked_neg() {
                Some(value) => Amount::Integer { value, exponent },
                None => Amount::Decimal(self.decimal().negated()),
            },
            Amount::Decimal(decimal) => Amount::Decimal(decimal.negated()),
        };
        Self { amount, ..self }
    }
}

/// `value * 10^up` and whether it fits. Mirrors `positiveScaleInt64`: an overflow wraps around for some powers and
/// gives 0 for the others.
fn scale_up(value: i64, up: u32) -> (i64, bool) {
    let Some(factor) = power_of_ten(up) else {
        return (0, value == 0);
    };
    match value.checked_mul(factor) {
        Some(scaled) => (scaled, true),
        None if value != i64::MIN && matches!(up, 1 | 2 | 3 | 6 | 9) => {
            (value.wrapping_mul(factor), false)
        }
        None => (0, false),
    }
}

/// `value / 10^down`, rounded away from zero. Mirrors `negativeScaleInt64`.
fn scale_down(value: i64, down: u64) -> i64 {
    match u32::try_from(down).ok().and_then(power_of_ten) {
        Some(divisor) => value / divisor + (value % divisor).signum(),
        None => value.signum(),
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self {
            amount: Amount::Integer { value, exponent: 0 },
            format: QuantityFormat::DecimalSi,
        }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = self.plus(other);
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = self.plus(other.negated());
    }
}

impl Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Self) -> Self {
        self.plus(other)
    }
}

impl Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Self) -> Self {
        self.plus(other.negated())
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.decimal().compare(other.decimal())
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::write(f, self.decimal(), self.format)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(json::QuantityVisitor)
    }
}
