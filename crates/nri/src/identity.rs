//! [`Identity`]: a plugin's name and index.

use std::fmt;

use thiserror::Error;

/// A plugin's name and index. The runtime calls plugins with lower indices first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    name: String,
    index: u8,
}

/// Errors of a plugin's name or index.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// The name is empty or has an invalid character.
    #[error("a plugin's name consists of letters, digits and -_.+, which {name:?} does not")]
    Name {
        /// The name.
        name: String,
    },
    /// The index is not between 00 and 99.
    #[error("a plugin's index is 00 to 99, not {index:?}")]
    Index {
        /// The index.
        index: String,
    },
}

impl Identity {
    /// An identity from a name of letters, digits and `-_.+`, and an index from 0 to 99.
    ///
    /// # Errors
    /// An invalid name or index.
    pub fn new(name: impl Into<String>, index: u8) -> Result<Self, IdentityError> {
        let name = name.into();
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() || !name.chars().all(good) {
            return Err(IdentityError::Name { name });
        }
        match index {
            0..=99 => Ok(Identity { name, index }),
            _ => Err(IdentityError::Index {
                index: index.to_string(),
            }),
        }
    }

    /// Like [`Identity::new`], with the index as two digits.
    ///
    /// # Errors
    /// An invalid name or index.
    pub fn parse(name: &str, index: &str) -> Result<Self, IdentityError> {
        let digits = index.len() == 2 && index.bytes().all(|byte| byte.is_ascii_digit());
        match index.parse() {
            Ok(number) if digits => Identity::new(name, number),
            _ => Err(IdentityError::Index {
                index: index.to_owned(),
            }),
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index as two digits.
    #[must_use]
    pub fn index(&self) -> String {
        format!("{:02}", self.index)
    }
}

/// The format of runtime logs: `10-name`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}-{}", self.index, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_indices_that_runtimes_accept_are_valid() {
        let table = [
            ("pin", "00", true),
            ("pin.v2_a+b-c", "99", true),
            ("", "10", false),
            ("a b", "10", false),
            ("ä", "10", false),
            ("pin", "", false),
            ("pin", "1", false),
            ("pin", "+1", false),
            ("pin", "100", false),
            ("pin", "1a", false),
            ("pin", "١٢", false),
        ];
        for (name, index, good) in table {
            let identity = Identity::parse(name, index);
            assert_eq!(identity.is_ok(), good, "{name:?} {index:?}");
            if let Ok(identity) = identity {
                assert_eq!(identity.to_string(), format!("{index}-{name}"));
            }
        }
        assert!(Identity::new("pin", 100).is_err());
    }
}
