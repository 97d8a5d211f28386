//! The part of the page about benchmarks that `make bench-cluster` writes.

use std::fs;

use crate::programs::workspace;

/// Where the part begins; everything after it is ours.
const BEGIN: &str = "<!-- make bench-cluster -->";

/// Puts the text in the place of what was measured before.
pub(crate) fn write(text: &str) -> Result<(), String> {
    let path = workspace().join("docs/benchmarks.md");
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let page = fs::read_to_string(&path).map_err(told)?;
    let before = page.split(BEGIN).next().unwrap_or_default().trim_end();
    let page = format!(
        "{before}\n\n{BEGIN}\n## A real cluster\n\n`make bench-cluster`: etcd, kube-apiserver and kube-scheduler v1.36.4 and \
         `pinfold scheduler` (release build) on one machine with 2 CPUs, which they share. {text}"
    );
    fs::write(&path, page).map_err(told)
}
