//! [`Amount`]: a resource quantity that remembers how it was written.
//!
//! `1000m` and `1`, or the number 20 and the text "20", are the same amount. An object that is read and
//! written again keeps the spelling of whoever wrote it.

use pinfold_core::quantity::Quantity;

use crate::content::Content;
use crate::finding::Report;
use crate::manifest::place::Place;

/// A quantity and its spelling. Compares by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    written: Content,
    quantity: Quantity,
}

impl Amount {
    /// How much.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// The number or text that says so.
    #[must_use]
    pub fn written(&self) -> &Content {
        &self.written
    }

    pub(crate) fn read(place: &Place<'_>, report: &mut Report) -> Option<Self> {
        Some(Self {
            quantity: place.quantity(report)?,
            written: place.content(),
        })
    }

    /// The amount under `key`, which must be there.
    pub(crate) fn read_required(
        parent: &Place<'_>,
        key: &str,
        report: &mut Report,
    ) -> Option<Self> {
        match parent.get(key) {
            Some(place) => Self::read(&place, report),
            None => {
                parent.missing(key, "a quantity such as 2, 500m or 4Gi", report);
                None
            }
        }
    }
}

impl From<Quantity> for Amount {
    fn from(quantity: Quantity) -> Self {
        Self {
            written: Content::Text(quantity.to_string()),
            quantity,
        }
    }
}
