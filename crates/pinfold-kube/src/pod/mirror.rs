//! Mirror pods: the API server's copies of the static pods that a kubelet runs from files.

use super::ObjectMeta;

/// The annotation of a mirror pod: the uid that the kubelet gave to the static pod. The mirror pod has a uid of its own,
/// which the kubelet, the runtime and the cgroups do not use.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The uid of the static pod that this pod mirrors; `None` if it is not a mirror pod.
///
/// Any user who may create pods can write the annotation. So a value that has the form of the uids that the API server
/// assigns is ignored: the pod would take the identity of another user's pod. The kubelet's own uids are MD5 sums.
pub(crate) fn static_uid(meta: &ObjectMeta) -> Option<&str> {
    let uid = meta.annotations.get(MIRROR)?.as_str();
    (!uid.is_empty() && !is_uuid(uid)).then_some(uid)
}

/// Whether it has the form of a UUID.
fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && (text.bytes().enumerate()).all(|(at, byte)| match dashes.contains(&at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}
