//! The part of the page about benchmarks that `make bench-cluster` writes.

/// Puts the text in the place of what was measured before.
pub(crate) fn write(text: &str) -> Result<(), String> {
    let part = format!(
        "## A real cluster\n\n`make bench-cluster`: etcd, kube-apiserver and kube-scheduler v1.36.4 and \
         `pinfold scheduler` (release build) on one machine with 2 CPUs, which they share. {text}"
    );
    crate::page::write("cluster", &part)
}
