//! Classifies resources by their names.
//!
//! Mirrors Kubernetes' resource name helpers and the plugin's `isHostLevelResource` and
//! `isNUMAAffineResource`.

use pinfold_core::pod::ResourceList;

/// Whether the resource is in the `kubernetes.io/` namespace, to which names without a slash belong.
#[must_use]
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the resource is hugepages of some size.
#[must_use]
pub fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether every NUMA node has a share of the resource: CPU, memory, hugepages. Only Guaranteed pods get them from
/// specific NUMA nodes.
#[must_use]
pub(crate) fn is_numa_affine(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

/// Whether the resource need not belong to a NUMA node: storage, and devices without topology.
#[must_use]
pub(crate) fn is_host_level(name: &str) -> bool {
    matches!(name, "ephemeral-storage" | "storage") || !is_native(name)
}

/// Whether the scheduler finds the resource in a node's allocatable. It always finds four resources; of the others it
/// keeps devices, hugepages, volumes and names with `kubernetes.io/`.
#[must_use]
pub fn is_on_node(name: &str, allocatable: &ResourceList) -> bool {
    if matches!(name, "cpu" | "memory" | "pods" | "ephemeral-storage") {
        return true;
    }
    let kept = is_extended(name)
        || is_hugepages(name)
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-");
    kept && allocatable.contains_key(name)
}

/// Whether the resource is an extended resource. Mirrors `IsExtendedResourceName`.
fn is_extended(name: &str) -> bool {
    let quota = |prefix: &str| is_subdomain(&format!("requests.{prefix}"));
    match name.split_once('/') {
        Some((prefix, rest)) => {
            !is_native(name)
                && !name.starts_with("requests.")
                && !prefix.is_empty()
                && quota(prefix)
                && is_label(rest)
        }
        None => false,
    }
}

/// Whether the text is up to 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && end(bytes.first()) && end(bytes.last())
}

/// Whether the text is up to 253 lower case letters, digits, `-` and `.`, every part beginning and ending with a letter
/// or digit.
fn is_subdomain(text: &str) -> bool {
    let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.iter().all(|byte| lower(byte) || *byte == b'-')
            && bytes.first().is_some_and(lower)
            && bytes.last().is_some_and(lower)
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_classified_by_name() {
        // name, native, affine, host level, extended
        let table = [
            ("cpu", true, true, false, false),
            ("hugepages-2Mi", true, true, false, false),
            ("ephemeral-storage", true, false, true, false),
            ("vendor.com/nic", false, false, true, true),
            ("requests.vendor/nic", false, false, true, false),
            ("a.kubernetes.io/x", true, false, false, false),
            ("a/b/c", false, false, true, false),
            ("Vendor/nic", false, false, true, false),
            ("vendor/-", false, false, true, false),
            ("/nic", false, false, true, false),
        ];
        for (name, native, affine, host, extended) in table {
            let found = (
                is_native(name),
                is_numa_affine(name),
                is_host_level(name),
                is_extended(name),
            );
            assert_eq!(found, (native, affine, host, extended), "{name}");
        }
    }

    #[test]
    fn the_scheduler_finds_four_resources_even_if_they_are_not_listed() {
        let nothing = ResourceList::new();
        assert!(is_on_node("ephemeral-storage", &nothing));
        assert!(!is_on_node("vendor.com/nic", &nothing));
        let listed: ResourceList = ["storage", "vendor.com/nic"]
            .map(|name| (name.into(), 1.into()))
            .into();
        assert!(is_on_node("vendor.com/nic", &listed));
        assert!(!is_on_node("storage", &listed));
    }
}
