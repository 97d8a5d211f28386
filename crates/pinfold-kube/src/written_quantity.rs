//! [`WrittenQuantity`]: a resource quantity together with its original text.
//!
//! `1000m` and `1`, or the number 20 and the text "20", are equal quantities. An object that is read and written again
//! keeps the original text.

use pinfold_core::quantity::Quantity;

use crate::diagnostic::DiagnosticReport;
use crate::json_value::JsonValue;
use crate::manifest::field::FieldRef;

/// A quantity and its original text. Compares by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenQuantity {
    written: JsonValue,
    quantity: Quantity,
}

impl WrittenQuantity {
    /// The quantity.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// The original number or text.
    #[must_use]
    pub fn written(&self) -> &JsonValue {
        &self.written
    }

    pub(crate) fn read(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<Self> {
        Some(Self {
            quantity: field.quantity(report)?,
            written: field.content(),
        })
    }

    /// Reads the required quantity under `key`.
    pub(crate) fn read_required(
        parent: &FieldRef<'_>,
        key: &str,
        report: &mut DiagnosticReport,
    ) -> Option<Self> {
        match parent.get(key) {
            Some(field) => Self::read(&field, report),
            None => {
                parent.missing(key, "a quantity such as 2, 500m or 4Gi", report);
                None
            }
        }
    }
}

impl From<Quantity> for WrittenQuantity {
    fn from(quantity: Quantity) -> Self {
        Self {
            written: JsonValue::Text(quantity.to_string()),
            quantity,
        }
    }
}
