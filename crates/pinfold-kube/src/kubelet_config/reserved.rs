//! Reserved resources: for the kubelet, for the system, per NUMA node, and for eviction.

use std::collections::BTreeSet;

use pinfold_core::memory::MemoryReservation;
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

use super::ConfigReader;
use crate::admission::PodLimits;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport};
use crate::go::quote::quoted;
use crate::manifest::field::FieldRef;
use crate::suggest;

/// The memory that must stay free; pods are evicted below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EvictionThreshold {
    /// An amount.
    WrittenQuantity(Quantity),
    /// A fraction of the machine's memory, between 0 and 1.
    Fraction(f32),
}

/// The kubelet's default: 100Mi.
impl Default for EvictionThreshold {
    fn default() -> Self {
        EvictionThreshold::WrittenQuantity(Quantity::bytes(100 * 1024 * 1024))
    }
}

const MEMORY_AVAILABLE: &str = "memory.available";
const SIGNALS: &[&str] = &[
    MEMORY_AVAILABLE,
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];

const RESERVABLE: &[&str] = &["cpu", "memory", "ephemeral-storage", "pid"];

impl ConfigReader<'_> {
    /// Reads `kubeReserved` or `systemReserved`. Mirrors `parseResourceList`.
    pub(super) fn reserved(&self, key: &str, report: &mut DiagnosticReport) -> ResourceList {
        let flag = match key {
            "kubeReserved" => "--kube-reserved",
            _ => "--system-reserved",
        };
        let map = self
            .object
            .get_map(key, "a mapping of resources to texts", report);
        let mut list = ResourceList::new();
        for (name, field) in map.iter().flat_map(FieldRef::members) {
            let Some(text) = field.text("a quantity in quotes such as \"500m\"", report) else {
                continue;
            };
            let failed = |cause: String| format!("{flag} value failed to parse: {cause}");
            if !RESERVABLE.contains(&name) {
                let message = failed(format!("cannot reserve {} resource", quoted(name)));
                Self::reject_word(&field, name, message, RESERVABLE, report);
                continue;
            }
            match text.parse::<Quantity>() {
                Ok(amount) if amount < Quantity::from(0) => {
                    let cause =
                        format!("resource quantity for {name:?} cannot be negative: {text}");
                    field.rejected(failed(cause), report);
                }
                Ok(amount) => drop(list.insert(name.into(), amount)),
                Err(error) => {
                    let text = quoted(text);
                    let cause =
                        format!("failed to parse quantity {text} for {name:?} resource: {error}");
                    field.rejected(failed(cause), report);
                }
            }
        }
        list
    }

    /// Reads `maxPods` and `podsPerCore`.
    pub(super) fn pod_limits(&self, report: &mut DiagnosticReport) -> PodLimits {
        let mut number = |key: &str, flag: &str| {
            let field = self.object.get(key)?;
            let number = field.small_integer("a number of pods", report)?;
            if number < 0 {
                let message = format!(
                    "invalid configuration: {key} (--{flag}) {number} must not be a negative number"
                );
                field.rejected(message, report);
            }
            Some(i64::from(number))
        };
        let default = PodLimits::default();
        PodLimits {
            max_pods: number("maxPods", "max-pods")
                // 0 is what a missing number looks like to the kubelet.
                .filter(|&most| most != 0)
                .unwrap_or(default.max_pods),
            pods_per_core: number("podsPerCore", "pods-per-core").unwrap_or(default.pods_per_core),
        }
    }

    /// Reads `reservedMemory`. Mirrors `validateReservedMemoryConfiguration`.
    pub(super) fn reserved_memory(&self, report: &mut DiagnosticReport) -> Vec<MemoryReservation> {
        let mut reservations = Vec::new();
        let mut seen = BTreeSet::new();
        for field in self
            .object
            .get_list("reservedMemory", "a list of reservations", report)
        {
            reservations.extend(reservation(&field, &mut seen, report));
        }
        reservations
    }

    /// Reads `memory.available` of `evictionHard`. Mirrors `ParseThresholdConfig` and the defaulting before it.
    pub(super) fn eviction_memory(
        &self,
        report: &mut DiagnosticReport,
    ) -> Option<EvictionThreshold> {
        let default = Some(EvictionThreshold::default());
        let merge = self.object.get("mergeDefaultEvictionSettings");
        let merge = merge.and_then(|field| field.boolean("true or false", report));
        let Some(map) =
            self.object
                .get_map("evictionHard", "a mapping of signals to texts", report)
        else {
            return default;
        };
        let mut memory = default.filter(|_| merge == Some(true));
        for (signal, field) in map.members() {
            let Some(text) = field.text("an amount or a percentage in quotes", report) else {
                continue;
            };
            if !SIGNALS.contains(&signal) {
                let message = format!("unsupported eviction signal {signal}");
                Self::reject_word(&field, signal, message, SIGNALS, report);
                continue;
            }
            match threshold(signal, text) {
                Err(message) => field.rejected(message, report),
                Ok(threshold) if signal == MEMORY_AVAILABLE => memory = threshold,
                Ok(_) => {}
            }
        }
        memory
    }
}

fn reservation<'n>(
    field: &FieldRef<'n>,
    seen: &mut BTreeSet<(NodeId, &'n str)>,
    report: &mut DiagnosticReport,
) -> Option<MemoryReservation> {
    let field = field.map("a reservation with numaNode and limits", report)?;
    // A missing number is 0, as everywhere in Kubernetes.
    let id = match field.get("numaNode") {
        Some(node) => node.integer("the number of a NUMA node", report)?,
        None => 0,
    };
    let Ok(node) = NodeId::new(id) else {
        let node = field.get("numaNode").unwrap_or_else(|| field.clone());
        node.unexpected("the number of a NUMA node, 0 to 63", report);
        return None;
    };
    let Some(map) = field.get_map("limits", "a mapping of resources to amounts", report) else {
        if field.get("limits").is_none() {
            field.missing("limits", "a mapping of resources to amounts", report);
        }
        return None;
    };
    let mut limits = ResourceList::new();
    for (name, field) in map.members() {
        if name != "memory" && !name.starts_with("hugepages-") {
            let message = format!(
                "invalid configuration: the limit type {} for NUMA node {node} is not supported, only [memory \
                 hugepages-<HugePageSize>] is accepted",
                quoted(name)
            );
            let meant = suggest::nearest(name, ["memory", "hugepages-2Mi", "hugepages-1Gi"]);
            let hint = meant.map(|meant| format!("did you mean {meant:?}?"));
            report.error(
                field.at(),
                field.path(),
                DiagnosticKind::Rejected(message),
                hint,
            );
            continue;
        }
        let Some(amount) = field.quantity(report) else {
            continue;
        };
        if amount.is_zero() {
            let message = format!(
                "invalid configuration: reserved memory may not be zero for NUMA node {node} and resource {name:?}"
            );
            field.rejected(message, report);
        } else if amount < Quantity::from(0) {
            field.unexpected("an amount above zero", report);
        }
        if !seen.insert((node, name)) {
            let message = format!(
                "invalid configuration: the reserved memory has a duplicate value for NUMA node {node} and resource \
                 {name:?}"
            );
            field.rejected(message, report);
        }
        limits.insert(name.into(), amount);
    }
    Some(MemoryReservation {
        numa_node: id,
        limits,
    })
}

/// Parses a threshold; `None` if it disables the signal. The error is the kubelet's message.
fn threshold(signal: &str, text: &str) -> Result<Option<EvictionThreshold>, String> {
    if text.ends_with('%') {
        if text == "0%" || text == "100%" {
            return Ok(None);
        }
        let digits = text.trim_end_matches('%');
        let percentage: f32 = digits
            .parse()
            .ok()
            .filter(|percentage: &f32| percentage.is_finite())
            .ok_or_else(|| {
                format!(
                    "strconv.ParseFloat: parsing {}: invalid syntax",
                    quoted(digits)
                )
            })?;
        let fraction = percentage / 100.0;
        return match fraction {
            ..0.0 => Err(format!(
                "eviction percentage threshold {signal} must be >= 0%: {text}"
            )),
            0.0..=1.0 => Ok(Some(EvictionThreshold::Fraction(fraction))),
            _ => Err(format!(
                "eviction percentage threshold {signal} must be <= 100%: {text}"
            )),
        };
    }
    let amount: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    match amount.is_positive() {
        true => Ok(Some(EvictionThreshold::WrittenQuantity(amount))),
        false => Err(format!(
            "eviction threshold {signal} must be positive: {amount}"
        )),
    }
}
