//! Parses a quantity. Mirrors `ParseQuantity` with its oddities: a sign or a suffix alone is zero, and exponents wrap
//! around at 32 bits.

use super::decimal::{Decimal, Digits, NANO};
use super::{Amount, Quantity, QuantityFormat};

/// Text that is not a quantity. The messages are Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// An unexpected character.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Form,
    /// A missing digit.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// An ending that is neither a known suffix nor an exponent.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The maximum number of digits of the integer form.
const MOST_DIGITS: usize = 18;

/// The largest amount that may be written with a binary suffix.
const LARGEST_BINARY: Decimal = Decimal {
    mantissa: i64::MAX as i128,
    exponent: 0,
};

/// The parts of a quantity's text.
struct QuantityParts<'a> {
    negative: bool,
    /// Before the point, without leading zeros; `0` if nothing is left.
    whole: &'a str,
    /// After the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether there was a digit.
    has_digit: bool,
}

/// The factor of a suffix.
enum Unit {
    PowerOfTen {
        exponent: i32,
        format: QuantityFormat,
    },
    PowerOfTwo(u32),
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Form);
    }
    let parts = split(text)?;
    let unit = unit(parts.suffix).ok_or(QuantityError::Suffix)?;
    if let Some(quantity) = integer_form(&parts, &unit) {
        return Ok(quantity);
    }
    if !parts.has_digit {
        return Err(QuantityError::Number);
    }
    Ok(decimal_form(&parts, &unit))
}

fn split(text: &str) -> Result<QuantityParts<'_>, QuantityError> {
    let (negative, number) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, rest) = split_digits(number);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = after_letters
        .strip_prefix(['+', '-'])
        .unwrap_or(after_letters);
    if !split_digits(exponent).1.is_empty() {
        return Err(QuantityError::Form);
    }
    let whole = match digits.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    Ok(QuantityParts {
        negative,
        whole,
        fraction,
        suffix,
        has_digit: !digits.is_empty() || !fraction.is_empty(),
    })
}

/// The leading ASCII digits, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn unit(suffix: &str) -> Option<Unit> {
    let decimal = |exponent| {
        Some(Unit::PowerOfTen {
            exponent,
            format: QuantityFormat::DecimalSi,
        })
    };
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some(Unit::PowerOfTwo(10)),
        "Mi" => Some(Unit::PowerOfTwo(20)),
        "Gi" => Some(Unit::PowerOfTwo(30)),
        "Ti" => Some(Unit::PowerOfTwo(40)),
        "Pi" => Some(Unit::PowerOfTwo(50)),
        "Ei" => Some(Unit::PowerOfTwo(60)),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some(Unit::PowerOfTen {
                exponent: low_bits(exponent),
                format: QuantityFormat::DecimalExponent,
            })
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Go truncates exponents the same way"
)]
fn low_bits(exponent: i64) -> i32 {
    exponent as i32
}

/// The integer form, if the number of digits and the unit allow it. A number without digits is zero here.
fn integer_form(parts: &QuantityParts<'_>, unit: &Unit) -> Option<Quantity> {
    let digits = parts.whole.len() + parts.fraction.len();
    let (factor, exponent, format) = match *unit {
        Unit::PowerOfTen { exponent, format } => {
            let places = i32::try_from(parts.fraction.len()).ok()?;
            let exponent = exponent.wrapping_sub(places);
            (digits <= MOST_DIGITS && exponent >= NANO).then_some((1, exponent, format))?
        }
        Unit::PowerOfTwo(power) => {
            // About three decimal digits for every ten binary ones, and one more for safety.
            let room = 14_u32.checked_sub(power * 3 / 10)? as usize;
            (parts.fraction.is_empty() && digits <= room).then_some((
                1_i64 << power,
                0,
                QuantityFormat::BinarySi,
            ))?
        }
    };
    let digits = parts.whole.bytes().chain(parts.fraction.bytes());
    let number = digits.fold(0_i64, |number, digit| {
        number * 10 + i64::from(digit.saturating_sub(b'0'))
    });
    let value = number.checked_mul(factor)?;
    Some(Quantity {
        amount: Amount::Integer {
            value: if parts.negative { -value } else { value },
            exponent,
        },
        format,
    })
}

/// The decimal form: rounded up to billionths; with a binary suffix at most 2^63 - 1.
fn decimal_form(parts: &QuantityParts<'_>, unit: &Unit) -> Quantity {
    let (amount, format) = match *unit {
        Unit::PowerOfTen { exponent, format } => {
            let digits = Digits::new(parts.whole, parts.fraction, exponent);
            (digits.rounded_to_nano(), format)
        }
        Unit::PowerOfTwo(power) => {
            let amount = Digits::new(parts.whole, parts.fraction, 0)
                .times_power_of_two(power)
                .rounded_to_nano();
            let one = Decimal {
                mantissa: 1,
                exponent: 0,
            };
            if amount.compare(LARGEST_BINARY).is_gt() {
                (LARGEST_BINARY, QuantityFormat::BinarySi)
            } else if amount.mantissa > 0 && amount.compare(one).is_lt() {
                (amount, QuantityFormat::DecimalSi)
            } else {
                (amount, QuantityFormat::BinarySi)
            }
        }
    };
    let amount = match parts.negative {
        true => amount.negated(),
        false => amount,
    };
    Quantity {
        amount: Amount::Decimal(amount),
        format,
    }
}
