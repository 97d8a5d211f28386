//! What an installation adds to a cluster and its node, and what of it stays when it is taken away.

use std::collections::BTreeSet;
use std::fs;

use super::node::Cluster;
use super::pages;
use crate::report::equal;

/// Folders of the node in which components have folders of their own; other programs of this machine see others there.
const FOLDERS: [&str; 2] = ["/run", "/var/lib"];
/// Folders of the runtime and the network plugin, which appear with the first pod.
const NOT_OURS: [&str; 4] = ["/run/netns", "/run/cni", "/run/runc", "/var/lib/cni"];
/// Objects that Kubernetes makes and removes with pods, and those with definitions of resources.
const NOT_COMPARED: [&str; 5] = ["Event", "Pod", "EndpointSlice", "Endpoints", "APIService"];

/// Objects as `KIND NAMESPACE NAME`, and folders of the node.
pub(super) struct State(BTreeSet<String>);

impl State {
    /// Of now.
    pub(super) fn of(cluster: &Cluster) -> Result<Self, String> {
        let kinds = cluster.user("kubectl api-resources --verbs=list -o name | sort -u")?;
        let kinds: Vec<&str> = kinds
            .lines()
            .filter(|kind| *kind != "componentstatuses")
            .collect();
        let columns = "KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name";
        let listed = cluster.user(&format!(
            "kubectl get {} -A --no-headers --ignore-not-found -o custom-columns={columns}",
            kinds.join(",")
        ))?;
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let compared = |line: &String| {
            let kind = line.split(' ').next().unwrap_or_default();
            !kind.is_empty() && !NOT_COMPARED.contains(&kind)
        };
        let mut found: BTreeSet<String> = listed.lines().map(words).filter(compared).collect();
        for folder in FOLDERS {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path().display().to_string());
            found.extend(paths.filter(|path| !NOT_OURS.contains(&path.as_str())));
        }
        Ok(Self(found))
    }

    /// What is there now and was not in `self`.
    pub(super) fn added(&self, cluster: &Cluster) -> Result<BTreeSet<String>, String> {
        let now = Self::of(cluster)?;
        Ok(now.0.difference(&self.0).cloned().collect())
    }

    /// What was there and is gone.
    fn removed(&self, cluster: &Cluster) -> Result<BTreeSet<String>, String> {
        let now = Self::of(cluster)?;
        Ok(self.0.difference(&now.0).cloned().collect())
    }
}

/// Takes the release away as the page says, compares what is left with what the notes name, and removes that by the notes'
/// commands: afterwards the cluster and the node are as before.
pub(super) fn uninstall(cluster: &Cluster, before: &State, left: &[&str]) -> Result<(), String> {
    let notes = cluster.user("helm get notes pinfold -n pinfold-system")?;
    let page = "deploy/helm/pinfold/README.md";
    cluster.user(&pages::block(page, "## Uninstalling", "sh")?)?;
    let expected: BTreeSet<String> = left.iter().map(|one| (*one).to_owned()).collect();
    equal(
        "left by helm uninstall",
        settled(cluster, before, &expected)?,
        expected,
    )?;
    for line in notes.lines() {
        let command = line.strip_prefix("  ").unwrap_or_default();
        let command = command.split("  #").next().unwrap_or_default().trim();
        let removes = command.contains(" delete ") || command.starts_with("rm ");
        if removes {
            cluster.user(command)?;
        }
    }
    let none = BTreeSet::new();
    equal(
        "left by the commands of the notes",
        settled(cluster, before, &none)?,
        none,
    )?;
    equal("removed beside", before.removed(cluster)?, BTreeSet::new())
}

/// What is left once that is what it should be, or after a while.
fn settled(
    cluster: &Cluster,
    before: &State,
    expected: &BTreeSet<String>,
) -> Result<BTreeSet<String>, String> {
    let mut found = before.added(cluster)?;
    for _ in 0..20 {
        if found == *expected {
            break;
        }
        // Controllers remove what belongs to objects that are gone.
        std::thread::sleep(std::time::Duration::from_secs(1));
        found = before.added(cluster)?;
    }
    Ok(found)
}
