//! The checksum inside a state file.
//!
//! Mirrors `checksum.New` and `checksum.Verify` of the kubelet's checkpoint manager: FNV-1a over the text
//! that Go's `spew` prints of the content while its checksum field is 0. The files of the CPU and memory
//! managers print the whole content; in the printed type name the format's number is left out, because the
//! first kubelets had only one format. A checksum of 0 is accepted without a look in the formats that
//! existed before checksums did.

use crate::go::record::fnv32a;
use crate::state::Fault;

/// The checksum of a state file, and how it comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The number in the file; 0 if there is none.
    pub stored: u64,
    /// The text that is hashed.
    pub text: String,
}

impl Checksum {
    /// The checksum of the content.
    #[must_use]
    pub fn computed(&self) -> u32 {
        fnv32a(&self.text)
    }

    /// Whether the number in the file is the checksum of the content.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.stored == u64::from(self.computed())
    }

    /// The error if it is not.
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
