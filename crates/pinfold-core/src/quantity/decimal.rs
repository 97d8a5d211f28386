//! [`Decimal`]: `mantissa * 10^exponent` in 128 bits: 38 digits, further ones are rounded up.

use std::cmp::Ordering;

/// The smallest unit of an amount: a billionth.
pub(super) const NANO: i32 = -9;

/// The maximum number of digits of a parsed mantissa.
const MOST_DIGITS: usize = 38;

/// A decimal number. Not normalized: 10 * 10^0 and 1 * 10^1 are different values of this type.
///
/// Packed, because its alignment would double the size of every [`super::Quantity`], of which a cluster has millions.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub(super) struct Decimal {
    pub(super) mantissa: i128,
    pub(super) exponent: i32,
}

/// 10^power, if it fits.
pub(super) fn power_of_ten(power: u32) -> Option<i64> {
    10_i64.checked_pow(power)
}

/// `number / 10^down`, rounded away from zero.
fn divided(number: i128, down: u32) -> i128 {
    match 10_i128.checked_pow(down) {
        Some(divisor) => number / divisor + (number % divisor).signum(),
        None => number.signum(),
    }
}

impl Decimal {
    pub(super) fn negated(self) -> Self {
        Self {
            mantissa: self.mantissa.saturating_neg(),
            ..self
        }
    }

    /// The sum, in the finer unit of the two if it fits.
    pub(super) fn sum(self, other: Self) -> Self {
        let (coarse, fine) = match self.exponent >= other.exponent {
            true => (self, other),
            false => (other, self),
        };
        let apart = coarse.exponent.abs_diff(fine.exponent);
        let coarse = coarse.in_finer_unit(apart);
        let left = apart - coarse.exponent.abs_diff(self.exponent.max(other.exponent));
        Self {
            mantissa: coarse.mantissa.saturating_add(divided(fine.mantissa, left)),
            exponent: coarse.exponent,
        }
    }

    /// The same number with an exponent lower by `steps`, or by as many as the mantissa has room for.
    fn in_finer_unit(self, steps: u32) -> Self {
        let room = match self.mantissa {
            0 => {
                return Self {
                    exponent: self.exponent.saturating_sub_unsigned(steps),
                    ..self
                };
            }
            mantissa => 37_u32.saturating_sub(mantissa.unsigned_abs().ilog10()),
        };
        let steps = steps.min(room);
        Self {
            mantissa: self.mantissa.saturating_mul(10_i128.pow(steps)),
            exponent: self.exponent.saturating_sub_unsigned(steps),
        }
    }

    /// The amount as a whole number, if it is one and fits.
    pub(super) fn whole(self) -> Option<i128> {
        let shift = 10_i128.checked_pow(self.exponent.unsigned_abs());
        match (self.mantissa, shift) {
            (0, _) => Some(0),
            (mantissa, Some(shift)) if self.exponent >= 0 => mantissa.checked_mul(shift),
            (mantissa, Some(shift)) => (mantissa % shift == 0).then(|| mantissa / shift),
            (_, None) => None,
        }
    }

    /// The amount in units of `10^exponent`, rounded up. Mirrors `scaledValue`: the low 64 bits of the result, rounded
    /// towards zero plus one, even for a negative amount.
    pub(super) fn scaled_value(self, exponent: i32) -> i64 {
        let down = i64::from(exponent) - i64::from(self.exponent);
        if down <= 0 {
            let up = u32::try_from(-down).unwrap_or(u32::MAX);
            return low_bits(self.mantissa).wrapping_mul(10_i64.wrapping_pow(up));
        }
        let small_divisor = u32::try_from(down).ok().and_then(power_of_ten);
        if let Some(divisor) = small_divisor
            && self.mantissa < i128::from(i64::MAX)
        {
            let low = low_bits(self.mantissa);
            return low / divisor + i64::from(low % divisor != 0);
        }
        let divisor = u32::try_from(down)
            .ok()
            .and_then(|down| 10_i128.checked_pow(down))
            .unwrap_or(i128::MAX);
        let rounded =
            self.mantissa.div_euclid(divisor) + i128::from(self.mantissa.rem_euclid(divisor) != 0);
        low_bits(rounded)
    }

    /// Compares by amount.
    pub(super) fn compare(self, other: Self) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs.is_ne() || self.mantissa == 0 {
            return signs;
        }
        let magnitudes = self.compare_magnitude(other);
        match self.mantissa > 0 {
            true => magnitudes,
            false => magnitudes.reverse(),
        }
    }

    /// Compares by magnitude; neither is zero.
    fn compare_magnitude(self, other: Self) -> Ordering {
        let first_digit = |decimal: Self| {
            i64::from(decimal.mantissa.unsigned_abs().ilog10()) + i64::from(decimal.exponent)
        };
        first_digit(self).cmp(&first_digit(other)).then_with(|| {
            // Both start at the same digit, so their exponents differ by less than 39.
            let exponent = self.exponent.min(other.exponent);
            let aligned = |decimal: Self| {
                10_u128
                    .checked_pow(decimal.exponent.abs_diff(exponent))
                    .and_then(|factor| decimal.mantissa.unsigned_abs().checked_mul(factor))
                    .unwrap_or(u128::MAX)
            };
            aligned(self).cmp(&aligned(other))
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "only the low bits are wanted"
)]
fn low_bits(number: i128) -> i64 {
    number as i64
}

/// A decimal number of any length while it is being parsed: digits, most significant first, the last of which counts
/// `10^exponent`.
pub(super) struct Digits {
    digits: Vec<u8>,
    exponent: i32,
}

impl Digits {
    /// The number whose digits are `whole` before the point and `fraction` after it, times `10^exponent`.
    /// Other characters than digits must not occur.
    pub(super) fn new(whole: &str, fraction: &str, exponent: i32) -> Self {
        let digits = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|byte| byte.saturating_sub(b'0').min(9))
            .collect();
        // Wraps as Go's 32-bit exponents do.
        let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        Self {
            digits,
            exponent: exponent.wrapping_sub(places),
        }
    }

    /// Multiplies by `2^power`; `power` is at most 60.
    pub(super) fn times_power_of_two(mut self, power: u32) -> Self {
        let mut carry = 0_u128;
        for digit in self.digits.iter_mut().rev() {
            let product = (u128::from(*digit) << power) + carry;
            *digit = last_digit(product);
            carry = product / 10;
        }
        let mut front = Vec::new();
        while carry > 0 {
            front.push(last_digit(carry));
            carry /= 10;
        }
        front.reverse();
        front.append(&mut self.digits);
        Self {
            digits: front,
            ..self
        }
    }

    /// The number rounded up to billionths, or to as many digits as fit.
    pub(super) fn rounded_to_nano(&self) -> Decimal {
        let leading_zeros = self.digits.iter().take_while(|&&digit| digit == 0).count();
        let digits = &self.digits[leading_zeros..];
        let below_nano = i64::from(NANO) - i64::from(self.exponent);
        let too_many = digits.len().saturating_sub(MOST_DIGITS);
        let dropped = usize::try_from(below_nano).unwrap_or(0).max(too_many);
        let (kept, rest) = digits.split_at(digits.len().saturating_sub(dropped));
        let number = kept
            .iter()
            .fold(0_i128, |number, &digit| number * 10 + i128::from(digit));
        let up = i128::from(rest.iter().any(|&digit| digit != 0));
        let exponent = i64::from(self.exponent).saturating_add_unsigned(dropped as u64);
        let rounded = Decimal {
            mantissa: number + up,
            exponent: i32::try_from(exponent).unwrap_or(i32::MAX),
        };
        let above_nano = u32::try_from(i64::from(rounded.exponent) - i64::from(NANO));
        rounded.in_finer_unit(above_nano.unwrap_or(0))
    }
}

fn last_digit(number: u128) -> u8 {
    (number % 10) as u8
}
