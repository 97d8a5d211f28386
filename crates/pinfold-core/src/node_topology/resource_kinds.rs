//! Kinds of resources, told by their names.
//!
//! Mirrors Kubernetes' resource name helpers and the plugin's `isHostLevelResource` and
//! `isNUMAAffineResource`.

use crate::pod::ResourceList;

/// Of the `kubernetes.io/` namespace: names without a slash are.
#[must_use]
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Pages of a fixed size.
#[must_use]
pub fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources that every NUMA node has its share of: CPU, memory, hugepages. Only Guaranteed pods get
/// theirs from certain nodes.
#[must_use]
pub fn is_numa_affine(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

/// Resources that need not belong to a NUMA node: storage, and devices that do not say.
#[must_use]
pub fn is_host_level(name: &str) -> bool {
    matches!(name, "ephemeral-storage" | "storage") || !is_native(name)
}

/// Whether the scheduler sees the resource in a node's allocatable list. Four resources it always sees.
/// Of the others it keeps devices, hugepages, volumes and what is `kubernetes.io/` by name.
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

/// A device or another resource that the cluster's owner invented. Mirrors `IsExtendedResourceName`.
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

/// Up to 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && end(bytes.first()) && end(bytes.last())
}

/// Up to 253 lower case letters, digits, `-` and `.`, every part beginning and ending with a letter or digit.
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
    fn names_tell_the_kind() {
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
    fn what_the_scheduler_always_sees_need_not_be_listed() {
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
