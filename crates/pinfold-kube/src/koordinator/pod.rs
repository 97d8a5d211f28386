//! The request of a pod to Koordinator's scheduler.

use pinfold_cluster::koordinator::KoordinatorDefects;
use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::plugin::PodDemand;
use pinfold_cluster::koordinator::policy_values::{
    BindPolicy, ExclusivePolicy, NumaExclusive, NumaPolicy, NumaSpec, ResourceSpec,
};
use pinfold_cluster::koordinator::qos::{KoordinatorQos, Priority};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::ResourceList;

use super::annotations::keys;
use super::node;
use super::read_annotations::warn_old;
use crate::annotation::Annotation;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::go::record::same_letters;
use crate::json_value::JsonValue;
use crate::manifest::field::FieldRef;
use crate::meta::{ObjectMeta, TextKind};
use crate::node_resource_topology::with_rest;
use crate::pod::PodObject;
use crate::pod::aggregate::aggregate;
use crate::suggest;

/// Reads the labels and annotations of a pod. Unknown values are kept: the core rejects or ignores them.
///
/// # Errors
/// If an annotation cannot be parsed: Koordinator does not schedule the pod either.
pub fn demand(pod: &PodObject, fidelity: Fidelity) -> Result<WithWarnings<PodDemand>, Diagnostics> {
    let meta = &pod.meta;
    let mut report = DiagnosticReport::for_object(&meta.origin.file, "Pod", &meta.full_name());
    let (spec, mut numa) = spec(meta, fidelity, &mut report);
    read_numa_spec(meta, &mut numa, &mut report);
    let demand = PodDemand {
        requests: Amounts::of(&effective_requests(pod)),
        limits: Amounts::of(&effective_limits(pod)),
        qos: qos(meta, &mut report),
        priority: priority(pod, &mut report),
        spec,
        numa,
    };
    report.finish(demand)
}

/// The requests of the pod at its peak, overhead included. Mirrors `PodRequests`.
#[must_use]
pub fn effective_requests(pod: &PodObject) -> ResourceList {
    let of = &pod.pod;
    let own = aggregate(&of.init_containers, &of.containers, |c| &c.requests);
    with_pod_level(own, of.pod_requests.as_ref(), &pod.overhead)
}

/// The limits of the pod at its peak, overhead included. Mirrors `PodLimits`.
#[must_use]
pub fn effective_limits(pod: &PodObject) -> ResourceList {
    let of = &pod.pod;
    let own = aggregate(&of.init_containers, &of.containers, |c| &c.limits);
    with_pod_level(own, of.pod_limits.as_ref(), &pod.overhead)
}

fn with_pod_level(
    mut sum: ResourceList,
    pod_level: Option<&ResourceList>,
    overhead: &ResourceList,
) -> ResourceList {
    for (name, amount) in pod_level.into_iter().flatten() {
        sum.insert(name.clone(), *amount);
    }
    for (name, amount) in overhead {
        *sum.entry(name.clone()).or_default() += *amount;
    }
    sum
}

fn qos(meta: &ObjectMeta, report: &mut DiagnosticReport) -> Option<KoordinatorQos> {
    let text = meta.labels.get(keys::QOS_CLASS)?;
    let qos = KoordinatorQos::from_label(text);
    let known = ["LSE", "LSR", "LS", "BE", "SYSTEM"];
    warn_unknown(meta, keys::QOS_CLASS, text, &known, qos.is_none(), report);
    qos
}

fn priority(pod: &PodObject, report: &mut DiagnosticReport) -> Option<Priority> {
    let key = keys::PRIORITY_CLASS;
    let label = pod.meta.labels.get(key).map(String::as_str);
    let priority = Priority::from_label_or_number(label, pod.priority);
    if let Some(text) = label {
        let known = ["koord-prod", "koord-mid", "koord-batch", "koord-free"];
        let is_unknown = priority.is_none();
        warn_unknown(&pod.meta, key, text, &known, is_unknown, report);
    }
    priority
}

/// Warns about a label with an unknown value, which has no effect.
fn warn_unknown(
    meta: &ObjectMeta,
    key: &str,
    text: &str,
    known: &[&str],
    is_unknown: bool,
    report: &mut DiagnosticReport,
) {
    if is_unknown && !text.is_empty() {
        let (at, path) = meta.position_of(TextKind::Label, key);
        let problem = DiagnosticKind::NoEffect(format!("the text {text:?}"));
        report.warning(at, &path, problem, Some(suggest::hint(text, known)));
    }
}

/// The text under `key`.
fn word<'n>(field: &FieldRef<'n>, key: &str, report: &mut DiagnosticReport) -> Option<&'n str> {
    field.get_as_go(key)?.text("a policy", report)
}

fn spec(
    meta: &ObjectMeta,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> (ResourceSpec, NumaSpec) {
    let (mut spec, mut numa) = (ResourceSpec::default(), NumaSpec::default());
    let Some(annotation) = Annotation::read(meta, keys::RESOURCE_SPEC, report) else {
        return (spec, numa);
    };
    let field = annotation.root();
    if field.is_null() {
        return (spec, numa);
    }
    let Some(field) = field.map("an object with policies", report) else {
        return (spec, numa);
    };
    let required = word(&field, "requiredCPUBindPolicy", report);
    spec.required_bind = required.and_then(BindPolicy::parse);
    let preferred = word(&field, "preferredCPUBindPolicy", report);
    spec.preferred_bind = preferred.and_then(BindPolicy::parse);
    let exclusive = word(&field, "preferredCPUExclusivePolicy", report);
    spec.preferred_exclusive = exclusive.and_then(ExclusivePolicy::parse);
    if fidelity.reads_one_spelling() {
        return (spec, numa);
    }
    if exclusive == Some("Default")
        && let Some(field) = field.get_as_go("preferredCPUExclusivePolicy")
    {
        let read_as = "the scheduler's default exclusive policy";
        warn_old(&field, "\"Default\"", read_as, report);
    }
    // The first design had these two fields here.
    for key in ["numaTopologyPolicy", "singleNUMANodeExclusive"] {
        let Some(field) = field.get_as_go(key) else {
            continue;
        };
        let found = format!("{key:?} in {}", keys::RESOURCE_SPEC);
        warn_old(
            &field,
            &found,
            &format!("{key:?} in {}", keys::NUMA_SPEC),
            report,
        );
    }
    let policy = word(&field, "numaTopologyPolicy", report);
    numa.policy = policy.and_then(NumaPolicy::parse);
    let exclusive = word(&field, "singleNUMANodeExclusive", report);
    numa.exclusive = exclusive.and_then(NumaExclusive::parse);
    (spec, numa)
}

/// The pod's own annotation has precedence, field by field.
fn read_numa_spec(meta: &ObjectMeta, numa: &mut NumaSpec, report: &mut DiagnosticReport) {
    let Some(annotation) = Annotation::read(meta, keys::NUMA_SPEC, report) else {
        return;
    };
    let field = annotation.root();
    if field.is_null() {
        return;
    }
    let Some(field) = field.map("an object with policies", report) else {
        return;
    };
    if let Some(policy) = word(&field, "numaTopologyPolicy", report) {
        numa.policy = NumaPolicy::parse(policy);
        if policy == node::POLICY_NONE {
            let (at, path) = meta.position_of(TextKind::Annotation, keys::NUMA_SPEC);
            node::warn_about_none(at, &path, report);
        }
    }
    if let Some(exclusive) = word(&field, "singleNUMANodeExclusive", report) {
        numa.exclusive = NumaExclusive::parse(exclusive);
    }
}

/// The text of the annotation `resource-spec` with the completed policies. Its other fields are kept.
#[must_use]
pub fn with_resource_spec(pod: &PodObject, spec: &ResourceSpec) -> String {
    let word = |word: Option<&str>| word.map(JsonValue::text);
    let known = crate::json_value::map([
        (
            "requiredCPUBindPolicy",
            word(spec.required_bind.as_ref().map(BindPolicy::as_str)),
        ),
        (
            "preferredCPUBindPolicy",
            word(spec.preferred_bind.as_ref().map(BindPolicy::as_str)),
        ),
        (
            "preferredCPUExclusivePolicy",
            word(
                spec.preferred_exclusive
                    .as_ref()
                    .map(ExclusivePolicy::as_str),
            ),
        ),
    ]);
    let mut ignored = DiagnosticReport::new("");
    let annotation = Annotation::read(&pod.meta, keys::RESOURCE_SPEC, &mut ignored);
    let names = [
        "requiredCPUBindPolicy",
        "preferredCPUBindPolicy",
        "preferredCPUExclusivePolicy",
    ];
    let rest = annotation.map(|annotation| annotation.root().rest(&names));
    let mut rest = rest.unwrap_or_default();
    rest.retain(|(key, _)| !names.iter().any(|name| same_letters(name, key)));
    with_rest(known, &rest).to_json()
}
