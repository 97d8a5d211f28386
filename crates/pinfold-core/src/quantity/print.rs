//! Prints a quantity in canonical form. Mirrors `CanonicalizeBytes`: no fraction, the largest suffix without loss, the
//! suffix family of the parsed text.
//!
//! Go also keeps the parsed text if it looks canonical enough (`+5`, `1.500`); this code always prints the canonical
//! form. And where Go has no suffix for a large amount and leaves it out (`1000E` prints as `1`), this code prints an
//! exponent (`1e21`).

use std::fmt;

use super::QuantityFormat;
use super::decimal::Decimal;

pub(super) fn write(
    f: &mut fmt::Formatter<'_>,
    amount: Decimal,
    format: QuantityFormat,
) -> fmt::Result {
    if amount.mantissa == 0 {
        return f.pad("0");
    }
    let text = binary(amount, format).unwrap_or_else(|| decimal(amount, format));
    f.pad(&text)
}

/// With a binary suffix, if the amount is whole, at least 1024 and was parsed with one.
fn binary(amount: Decimal, format: QuantityFormat) -> Option<String> {
    if format != QuantityFormat::BinarySi {
        return None;
    }
    let mut number = amount.whole()?;
    if number.unsigned_abs() < 1024 {
        return None;
    }
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next()?;
    while number % 1024 == 0 {
        number /= 1024;
        suffix = suffixes.next()?;
    }
    Some(format!("{number}{suffix}"))
}

fn decimal(amount: Decimal, format: QuantityFormat) -> String {
    let mantissa = amount.mantissa;
    let mut digits = mantissa.to_string();
    let significant = digits.trim_end_matches('0').len();
    let mut exponent = i64::from(amount.exponent);
    while digits.len() > significant {
        digits.pop();
        exponent += 1;
    }
    while exponent % 3 != 0 {
        digits.push('0');
        exponent -= 1;
    }
    match (format, exponent) {
        (_, 0) => digits,
        (QuantityFormat::DecimalExponent, _) => format!("{digits}e{exponent}"),
        _ => match suffix(exponent) {
            Some(suffix) => format!("{digits}{suffix}"),
            None => format!("{digits}e{exponent}"),
        },
    }
}

fn suffix(exponent: i64) -> Option<&'static str> {
    Some(match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => return None,
    })
}
