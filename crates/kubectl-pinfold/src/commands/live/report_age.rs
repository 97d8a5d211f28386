//! Reports that were written before a pod on their node started.
//!
//! An agent writes its NodeResourceTopology when something changes on the node. After an uninstall the object stays and
//! looks like a current one.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::pod_start::PodStart;

/// How long after the start of a pod its node may take to report it.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// When reports were written, and when the latest Guaranteed pod on each node started.
#[derive(Default)]
pub(super) struct ReportAges {
    written: BTreeMap<String, Timestamp>,
    started: BTreeMap<String, (Timestamp, String)>,
}

impl ReportAges {
    /// Adds a report: its last write is the latest of its managed fields.
    pub(super) fn add_report(&mut self, json: &str) {
        let Ok(object) = serde_json::from_str::<Value>(json) else {
            return;
        };
        let meta = &object["metadata"];
        let fields = meta["managedFields"].as_array();
        let times = fields.into_iter().flatten().map(|field| &field["time"]);
        let times = times.chain([&meta["creationTimestamp"]]);
        let written = times.filter_map(timestamp).max();
        if let (Some(name), Some(written)) = (meta["name"].as_str(), written) {
            self.written.insert(name.to_owned(), written);
        }
    }

    /// Adds a pod. Only Guaranteed pods count: those of other classes hold nothing that a report lists.
    pub(super) fn add_pod(&mut self, pod: &PodStart) {
        let Some((node, started)) = pod.guaranteed() else {
            return;
        };
        let pod = (started, pod.full_name());
        let latest = self.started.entry(node.to_owned()).or_insert(pod.clone());
        if pod > *latest {
            *latest = pod;
        }
    }

    /// One note for each report that is older than a pod on its node.
    pub(super) fn notes(&self, now: Timestamp) -> Vec<String> {
        let note = |(node, written): (&String, &Timestamp)| {
            let (started, pod) = self.started.get(node)?;
            let is_old = started.duration_since(*written) > GRACE;
            is_old.then(|| {
                format!(
                    "the report of {node} was written {} ago, before pod {pod} started: it is out of date if no agent \
                     runs there",
                    age(now.duration_since(*written))
                )
            })
        };
        self.written.iter().filter_map(note).collect()
    }
}

fn timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// An age as kubectl prints it, in one unit.
fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ages(written: &str, started: &str, class: &str) -> ReportAges {
        let mut ages = ReportAges::default();
        let report = json!({"metadata": {
            "name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "x"}, {"manager": "pinfold-agent", "time": written}],
        }});
        ages.add_report(&report.to_string());
        let pod = json!({
            "metadata": {"namespace": "ml", "name": "a"}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "qosClass": class, "startTime": started},
        });
        ages.add_pod(&PodStart::parse(&pod.to_string()).expect("a pod"));
        ages
    }

    fn notes(written: &str, started: &str, class: &str) -> Vec<String> {
        let now = "2026-01-02T12:00:00Z".parse().expect("a time");
        ages(written, started, class).notes(now)
    }

    #[test]
    fn a_report_older_than_a_guaranteed_pod_on_its_node_is_noted_with_its_age() {
        let (nine, ten) = ("2026-01-02T09:00:00Z", "2026-01-02T10:00:00Z");
        assert_eq!(
            notes(nine, ten, "Guaranteed"),
            [
                "the report of n1 was written 3h ago, before pod ml/a started: it is out of date if no agent runs there"
            ]
        );
        assert!(notes(ten, nine, "Guaranteed").is_empty(), "written since");
        assert!(notes(nine, ten, "Burstable").is_empty(), "holds nothing");
        let soon = "2026-01-02T09:00:59Z";
        assert!(
            notes(nine, soon, "Guaranteed").is_empty(),
            "may still be reported"
        );
    }

    #[test]
    fn ages_have_one_unit() {
        for (seconds, text) in [(5, "5s"), (150, "2m"), (7200, "2h"), (400_000, "4d")] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), text);
        }
    }
}
