//! The checksum of a state file.
//!
//! Mirrors `checksum.New` and `checksum.Verify` of the kubelet's checkpoint manager: FNV-1a over the text that Go's
//! `spew` prints of the content while its checksum field is 0. The CPU and memory managers print the whole content; the
//! printed type name has no format number, because the first kubelets had only one format. A checksum of 0 is accepted
//! unchecked in the formats that existed before checksums.

use crate::go::record::fnv32a;
use crate::state::Fault;

/// The checksum of a state file, and the text it is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The checksum in the file; 0 if there is none.
    pub stored: u64,
    /// The hashed text.
    pub text: String,
}

impl Checksum {
    /// The checksum of the content.
    #[must_use]
    pub fn computed(&self) -> u32 {
        fnv32a(&self.text)
    }

    /// Whether the checksum in the file matches the content.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.stored == u64::from(self.computed())
    }

    /// Returns an error if the checksum does not match.
    pub(super) fn verify(&self) -> Result<(), Fault> {
        match self.is_valid() {
            true => Ok(()),
            false => Err(Fault::Corrupt {
                stored: self.stored,
                computed: self.computed(),
            }),
        }
    }
}
