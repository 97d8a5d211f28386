//! [`DialectArgs`]: the arguments of other schedulers' plugins, for nodes of their dialects.

use std::sync::Arc;

use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_kube::koordinator::plugin_args_in_json;

use super::BadRequest;
use super::wire::WireDialectArgs;

/// The most bytes of the arguments of Koordinator's plugin.
const MAX_KOORDINATOR: usize = 64 << 10;
/// The highest weight of Volcano's plugin.
const MAX_WEIGHT: u32 = 100;

/// The arguments of other schedulers' plugins.
#[derive(Clone, Debug, PartialEq)]
pub struct DialectArgs {
    /// Those of Koordinator's plugin NodeNUMAResource.
    pub koordinator: Arc<KoordinatorArgs>,
    /// The weight of Volcano's plugin numa-aware: how much its score counts on Volcano's nodes.
    pub volcano_weight: u32,
}

impl Default for DialectArgs {
    fn default() -> Self {
        Self {
            koordinator: Arc::default(),
            volcano_weight: 1,
        }
    }
}

impl DialectArgs {
    /// Reads the arguments of a request; the defaults if it has none.
    ///
    /// # Errors
    /// If they make no sense.
    pub(crate) fn read(request: Option<&WireDialectArgs>) -> Result<Self, BadRequest> {
        let mut args = Self::default();
        let Some(request) = request else {
            return Ok(args);
        };
        if request.koordinator.len() > MAX_KOORDINATOR {
            return Err(BadRequest::Field {
                field: "dialects.koordinator",
                expected: "at most 64 KiB",
            });
        }
        if !request.koordinator.is_empty() {
            let json = String::from_utf8_lossy(&request.koordinator);
            let read = plugin_args_in_json("koordinator", &json);
            args.koordinator = read
                .map_err(|found| BadRequest::Args(found.to_string()))?
                .into();
        }
        match request.volcano_weight {
            0 => {}
            weight if weight <= MAX_WEIGHT => args.volcano_weight = weight,
            _ => {
                return Err(BadRequest::Field {
                    field: "dialects.volcano_weight",
                    expected: "at most 100",
                });
            }
        }
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(koordinator: &str, volcano_weight: u32) -> Result<DialectArgs, String> {
        let request = WireDialectArgs {
            koordinator: koordinator.as_bytes().to_vec(),
            volcano_weight,
        };
        DialectArgs::read(Some(&request)).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_that_make_no_sense_are_rejected_with_the_field() {
        assert_eq!(read("", 0), Ok(DialectArgs::default()));
        assert_eq!(read("{}", 100).map(|args| args.volcano_weight), Ok(100));
        let spaces = " ".repeat(MAX_KOORDINATOR + 1);
        for (koordinator, weight, expected) in [
            ("{", 1, "koordinator"),
            ("[]", 1, "koordinator"),
            (
                r#"{"defaultCPUBindPolicy":"Sideways"}"#,
                1,
                "defaultCPUBindPolicy",
            ),
            (
                r#"{"defaultBindPolicy":"FullPCPUs"}"#,
                1,
                "defaultBindPolicy",
            ),
            (spaces.as_str(), 1, "dialects.koordinator"),
            ("", 101, "dialects.volcano_weight"),
        ] {
            let error = read(koordinator, weight).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
