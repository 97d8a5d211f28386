//! Quantities in JSON and YAML: a string, a bare number, or null for zero.

use std::fmt;

use serde::de::{Error, Visitor};

use super::Quantity;

pub(super) struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"1500m\", \"2Gi\" or 4")
    }

    /// Blanks around the text are allowed here, as in Go.
    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim()
            .parse()
            .map_err(|error| E::custom(format_args!("quantity {text:?}: {error}")))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    /// With an exponent where Go's JSON would write one.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        match number.abs() {
            0.0 | 1e-6..1e21 => self.visit_str(&number.to_string()),
            _ => self.visit_str(&format!("{number:e}")),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }

    fn visit_none<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}
