//! [`Checkpoint`]: how the kubelet's checkpoint manager reads, checks and writes a state file.
//!
//! Mirrors `checksum.New` and `checksum.Verify`: FNV-1a over the text that Go's `spew` prints of the content while its
//! checksum field is 0. The CPU and memory managers print the whole content; the printed type name has no format
//! number, because the first kubelets had only one format. A checksum of 0 is accepted unchecked in the formats that
//! existed before checksums.

use crate::go::record::{fnv32a, go_named};
use crate::go::value::GoValue;
use crate::state::{Fault, KubeletManager, MAX_FILE_BYTES, RestoreError};

go_named! {
    /// The checksum of the other fields.
    struct ChecksumField(u64) = "checksum.Checksum"
}

/// The content of a state file as a Go value.
pub(super) trait Checkpoint: GoValue + Clone {
    /// The checksum in the file.
    fn checksum_field(&mut self) -> &mut ChecksumField;

    /// The text that the checksum is computed from, of a content whose checksum is 0.
    fn hashed_text(&self) -> String;

    /// The checksum.
    fn checksum(&self) -> Checksum {
        self.checksum_over(Self::hashed_text)
    }

    /// The checksum over another text.
    fn checksum_over(&self, text: impl FnOnce(&Self) -> String) -> Checksum {
        let mut cleared = self.clone();
        let stored = std::mem::take(cleared.checksum_field()).0;
        let text = text(&cleared);
        Checksum { stored, text }
    }

    /// The file with the right checksum.
    fn write(mut self) -> String {
        self.checksum_field().0 = self.checksum().computed().into();
        let mut out = String::new();
        self.encode(&mut out);
        out
    }
}

/// Reads the content of a file of `manager`; the error names the file.
pub(super) fn restore<T>(
    manager: KubeletManager,
    file: &str,
    bytes: &[u8],
    read: impl FnOnce(&[u8]) -> Result<T, Fault>,
) -> Result<T, RestoreError> {
    let restored = check_size(bytes).and_then(|()| read(bytes));
    restored.map_err(|fault| RestoreError {
        manager,
        file: file.to_owned(),
        fault: Box::new(fault),
    })
}

/// Rejects a file above the size limit.
pub(super) fn check_size(bytes: &[u8]) -> Result<(), Fault> {
    match bytes.len() {
        0..=MAX_FILE_BYTES => Ok(()),
        len => Err(Fault::TooLarge(len)),
    }
}

/// Rejects a file with another policy than the configured one, if one is configured.
pub(super) fn check_policy(
    prefix: &'static str,
    configured: Option<&str>,
    found: &str,
) -> Result<(), Fault> {
    match configured.filter(|configured| *configured != found) {
        None => Ok(()),
        Some(configured) => Err(Fault::Policy {
            prefix,
            configured: configured.to_owned(),
            found: found.to_owned(),
        }),
    }
}

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
