//! The options of the CPU and topology managers: names and values. Whether they are compatible with each other and with
//! the machine is checked by the managers.

use std::collections::BTreeMap;

use super::ConfigReader;
use crate::diagnostic::DiagnosticReport;
use crate::go::parse;
use crate::go::quote::quoted;
use crate::manifest::field::FieldRef;

const CPU_OPTIONS: &[&str] = &[
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
];

const MAX_NUMA_NODES: &str = "max-allowable-numa-nodes";
const TOPOLOGY_OPTIONS: &[&str] = &["prefer-closest-numa-nodes", MAX_NUMA_NODES];

/// The kubelet's default limit of NUMA nodes, which the option can only raise.
const LEAST_NUMA_NODES: i64 = 8;

impl ConfigReader<'_> {
    pub(super) fn cpu_options(&self, report: &mut DiagnosticReport) -> BTreeMap<String, String> {
        self.options(
            "cpuManagerPolicyOptions",
            "CPU Manager",
            CPU_OPTIONS,
            report,
        )
    }

    pub(super) fn topology_options(
        &self,
        report: &mut DiagnosticReport,
    ) -> BTreeMap<String, String> {
        let key = "topologyManagerPolicyOptions";
        self.options(key, "Topology Manager", TOPOLOGY_OPTIONS, report)
    }

    fn options(
        &self,
        key: &str,
        manager: &str,
        known: &[&'static str],
        report: &mut DiagnosticReport,
    ) -> BTreeMap<String, String> {
        let map = self
            .object
            .get_map(key, "a mapping of options to texts", report);
        let mut options = BTreeMap::new();
        for (written, field) in map.iter().flat_map(FieldRef::members) {
            let Some(name) = self.option_name(written, known) else {
                let message = format!("unknown {manager} Policy option: {}", quoted(written));
                Self::reject_word(&field, written, message, known, report);
                continue;
            };
            if name != written {
                Self::warn_old(&field, written, name, report);
            }
            let Some(value) = field.text("a text such as \"true\"", report) else {
                continue;
            };
            check_value(name, value, &field, report);
            if options.insert(name.to_owned(), value.to_owned()).is_some() {
                field.rejected(format!("Duplicate value: {name:?}"), report);
            }
        }
        options
    }

    /// The option with this name or, in sound mode, with this name in another letter case.
    fn option_name(&self, written: &str, known: &[&'static str]) -> Option<&'static str> {
        let is_same = |name: &&&'static str| match self.reads_old_spellings {
            true => name.eq_ignore_ascii_case(written),
            false => **name == written,
        };
        known.iter().find(is_same).copied()
    }
}

fn check_value(name: &str, value: &str, field: &FieldRef<'_>, report: &mut DiagnosticReport) {
    let text = quoted(value);
    if name != MAX_NUMA_NODES {
        if parse::boolean(value).is_none() {
            let cause = format!("strconv.ParseBool: parsing {text}: invalid syntax");
            let message = format!("bad value for option {name:?}: {cause}");
            field.rejected(message, report);
        }
        return;
    }
    let message = match value.parse::<i64>() {
        Ok(LEAST_NUMA_NODES..) => return,
        Ok(_) => {
            format!("the minimum value of {name:?} should not be less than {LEAST_NUMA_NODES}")
        }
        Err(error) => {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let cause = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let cause = format!("strconv.Atoi: parsing {text}: {cause}");
            format!("unable to convert policy option to integer {name:?}: {cause}")
        }
    };
    field.rejected(message, report);
}
