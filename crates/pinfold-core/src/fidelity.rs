//! [`Fidelity`]: whether to repeat another program's defects or to decide soundly.
//!
//! The kubelet's rules are the same in both modes. Where its code has a defect, *exact* repeats it, so that a
//! prediction of a real kubelet is right, and *sound* does what the rule says. Every defect is one method, listed under
//! its program (the kubelet's here, those of schedulers in `pinfold-cluster`) and called at the one place where it matters; the pages `docs/*-differences.md` show each with its
//! smallest example.

use serde::{Deserialize, Serialize};

/// Whether the defects of the kubelet, Koordinator or Volcano are repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// What that program does, bit for bit, as far as it returns at all.
    Exact,
    /// What that program documents: nothing assigned twice, nothing leaked, always an answer.
    #[default]
    Sound,
}

/// Declares one method per defect: whether this fidelity repeats it.
macro_rules! defects {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        impl Fidelity {
            $(
                $(#[$doc])+
                #[must_use]
                pub fn $name(self) -> bool {
                    self == Fidelity::Exact
                }
            )+
        }
    };
}

mod kubelet;
