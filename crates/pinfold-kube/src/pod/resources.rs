//! A `resources` section: requests and limits, defaulted and validated as the API server does.
//!
//! Mirrors `SetDefaults_ResourceList`, the container part of `SetDefaults_Pod`, and
//! `validateResourceRequirements`.

use pinfold_core::name::ResourceName;
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

use super::fields;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport};
use crate::manifest::field::FieldRef;
use crate::suggest;

/// Requests and limits; `None` if missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceRequirements {
    pub(super) requests: Option<ResourceList>,
    pub(super) limits: Option<ResourceList>,
}

/// Which resource names a section allows.
pub(super) trait ResourceNameRule {
    /// Why `name` is not allowed; `None` if it is.
    fn rejection(name: &str) -> Option<String>;
    /// Names to suggest instead.
    const USUAL: &'static [&'static str];
}

/// The resource names that a container may request.
pub(super) struct ContainerResource;

impl ResourceNameRule for ContainerResource {
    fn rejection(name: &str) -> Option<String> {
        if is_standard(name) || is_extended(name) || is_prefixed_native(name) {
            return None;
        }
        let why = match name.contains('/') {
            true => "doesn't follow extended resource name standard",
            false => "must be a standard resource for containers or fully qualified",
        };
        Some(format!("Invalid value: {name:?}: {why}"))
    }

    const USUAL: &'static [&'static str] = &[
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "hugepages-1Gi",
        "nvidia.com/gpu",
    ];
}

/// The resource names that a pod may request at pod level.
pub(super) struct PodResource;

impl ResourceNameRule for PodResource {
    fn rejection(name: &str) -> Option<String> {
        let is_supported = matches!(name, "cpu" | "memory") || is_hugepages(name);
        (!is_supported).then(|| {
            let supported = "supported values: \"cpu\", \"hugepages-\", \"memory\"";
            format!("Unsupported value: {name:?}: {supported}")
        })
    }

    const USUAL: &'static [&'static str] = &["cpu", "memory", "hugepages-2Mi", "hugepages-1Gi"];
}

impl ResourceRequirements {
    /// Reads the section; amounts are converted to the form that the API server stores.
    pub(super) fn read<N: ResourceNameRule>(
        section: &FieldRef<'_>,
        report: &mut DiagnosticReport,
    ) -> Self {
        reject_unknown(section, report);
        Self {
            requests: list::<N>(section, "requests", report),
            limits: list::<N>(section, "limits", report),
        }
    }

    /// Sets each missing request to its limit.
    pub(super) fn default_requests(&mut self) {
        let Some(limits) = &self.limits else {
            return;
        };
        let requests = self.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert(*limit);
        }
    }

    /// Adds an error for what the API server rejects: requests above limits, requests that must equal limits and do
    /// not, and hugepages without CPU or memory.
    pub(super) fn check<N: ResourceNameRule>(
        &self,
        section: &FieldRef<'_>,
        report: &mut DiagnosticReport,
    ) {
        let none = ResourceList::new();
        let requests = self.requests.as_ref().unwrap_or(&none);
        let limits = self.limits.as_ref().unwrap_or(&none);
        for (name, request) in requests {
            let name = name.as_str();
            let message = match limits.get(name) {
                Some(limit) if request != limit && !may_overcommit(name) => {
                    format!(
                        "Invalid value: \"{request}\": must be equal to {name} limit of {limit}"
                    )
                }
                Some(limit) if request > limit => format!(
                    "Invalid value: \"{request}\": must be less than or equal to {name} limit of {limit}"
                ),
                None if !may_overcommit(name) => {
                    "Required value: Limit must be set for non overcommitable resources".to_owned()
                }
                _ => continue,
            };
            amount_field(section, "requests", name).rejected(message, report);
        }
        let names = || {
            requests
                .keys()
                .chain(limits.keys())
                .map(ResourceName::as_str)
        };
        let has_basis = names().any(|name| matches!(name, "cpu" | "memory"));
        if names().any(is_hugepages) && !has_basis {
            section.rejected("Forbidden: HugePages require cpu or memory", report);
        }
    }
}

/// The field with the amount of `name`, or else its section.
pub(super) fn amount_field<'n>(section: &FieldRef<'n>, list: &str, name: &str) -> FieldRef<'n> {
    let list = section.get(list);
    let amount = list.as_ref().and_then(|list| list.get(name));
    amount.or(list).unwrap_or_else(|| section.clone())
}

/// Adds an error for unknown fields: a misspelt `requests` would silently request nothing.
fn reject_unknown(section: &FieldRef<'_>, report: &mut DiagnosticReport) {
    for (key, at) in section.unknown(fields::RESOURCES) {
        let hint = Some(suggest::hint(key, fields::RESOURCES));
        let problem = DiagnosticKind::UnknownField(key.to_owned());
        report.error(at, section.path(), problem, hint);
    }
}

fn list<N: ResourceNameRule>(
    section: &FieldRef<'_>,
    key: &str,
    report: &mut DiagnosticReport,
) -> Option<ResourceList> {
    let map = section.get_map(key, "a mapping of resources to amounts", report)?;
    let mut list = ResourceList::new();
    for (name, field) in map.members() {
        if let Some(message) = N::rejection(name) {
            let meant = suggest::nearest(name, N::USUAL.iter().copied());
            let hint = meant.map(|meant| format!("did you mean {meant:?}?"));
            report.error(
                field.at(),
                field.path(),
                DiagnosticKind::Rejected(message),
                hint,
            );
            continue;
        }
        if let Some(amount) = field.quantity(report) {
            let amount = stored(amount);
            check_amount(name, &amount, &field, report);
            warn_overflow(name, &amount, &field, report);
            list.insert(name.into(), amount);
        }
    }
    Some(list)
}

/// The amount as the API server stores it: rounded up to thousandths, in canonical form.
pub(super) fn stored(amount: Quantity) -> Quantity {
    let rounded = Quantity::milli(amount.milli_value());
    // Thousandths of amounts above nine quadrillion do not fit; such amounts are not rounded.
    let fits = rounded >= amount && rounded < amount + Quantity::milli(1);
    let rounded = match fits && rounded != amount {
        true => rounded,
        false => amount,
    };
    rounded.to_string().parse().unwrap_or(rounded)
}

fn check_amount(
    name: &str,
    amount: &Quantity,
    field: &FieldRef<'_>,
    report: &mut DiagnosticReport,
) {
    let invalid = |why: String| format!("Invalid value: \"{amount}\": {why}");
    if *amount < Quantity::from(0) {
        field.rejected(invalid("must be greater than or equal to 0".into()), report);
    } else if is_extended(name) && amount.milli_value() % 1000 != 0 {
        field.rejected(invalid("must be an integer".into()), report);
    } else if let Some(size) = name.strip_prefix(HUGEPAGES)
        && !is_multiple(amount, size)
    {
        let why = format!("{amount} is not positive integer multiple of {name}");
        field.rejected(invalid(why), report);
    }
}

/// Warns about an amount that Kubernetes accepts and whose 64-bit count, of thousandths for CPU, is another number.
fn warn_overflow(
    name: &str,
    amount: &Quantity,
    field: &FieldRef<'_>,
    report: &mut DiagnosticReport,
) {
    let (counted, unit) = match name {
        "cpu" => (Quantity::milli(amount.milli_value()), "thousandths"),
        _ => (Quantity::from(amount.value()), "units"),
    };
    // Both counts are rounded up.
    if counted >= *amount {
        return;
    }
    let kind = DiagnosticKind::OldSpelling {
        found: amount.to_string(),
        read_as: counted.to_string(),
    };
    let hint = format!("Kubernetes counts {name} in {unit}, in 64 bits: request less");
    field.warn(kind, Some(hint), report);
}

/// Whether the amount is a whole number of pages of the size written in the resource's name.
fn is_multiple(amount: &Quantity, size: &str) -> bool {
    let size: Option<Quantity> = size.parse().ok();
    size.is_some_and(|size| {
        size.is_positive() && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0
    })
}

const HUGEPAGES: &str = "hugepages-";

/// Whether the name is a hugepages resource.
pub(super) fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(name)
}

/// Whether the name is a native resource with its domain prefix.
fn is_prefixed_native(name: &str) -> bool {
    name.contains("kubernetes.io/") && is_qualified(name)
}

/// Whether the name is an extended resource: `vendor.com/device`. Mirrors `IsExtendedResourceName`.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native && !name.starts_with("requests.") && is_qualified(&format!("requests.{name}"))
}

/// Whether requests may be smaller than limits.
pub(super) fn may_overcommit(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    is_native && !is_hugepages(name)
}

/// Whether the name is a DNS subdomain, a slash, and a name of letters, digits, `-`, `_` and `.`.
fn is_qualified(name: &str) -> bool {
    let Some((domain, name)) = name.split_once('/') else {
        return false;
    };
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
    };
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = name.as_bytes();
    domain.len() <= 253
        && domain.split('.').all(is_label)
        && name.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(is_inner)
}
