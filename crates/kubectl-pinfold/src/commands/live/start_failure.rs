//! Why a node does not start a pod that is bound to it.
//!
//! An agent that rejects a pod lets the creation of the pod's sandbox fail. The reason is in the kubelet's event; the
//! pod itself stays in the phase `Pending`.

use pinfold_apiserver::Connection;
use pinfold_apiserver::snapshot::{ListRequest, ListResult, snapshot};
use serde_json::Value;

use super::PodName;

/// The most events of one pod.
const MAX_EVENTS: usize = 1000;

/// The message of the last event about a sandbox that could not be created, if there is one.
///
/// # Errors
/// If events cannot be listed, with the note for users.
pub(super) fn last(connection: &Connection, pod: PodName<'_>) -> Result<Option<String>, String> {
    let events = ListRequest {
        paths: vec![format!("/api/v1/namespaces/{}/events", pod.namespace)],
        field_selector: format!(
            "involvedObject.name={},reason=FailedCreatePodSandBox",
            pod.name
        ),
        page_size: MAX_EVENTS,
        max_objects: MAX_EVENTS,
    };
    let unknown = |why: String| {
        format!("events cannot be listed ({why}): why the node does not start the pod is unknown")
    };
    let listed = snapshot(connection, &[events]).map_err(|error| unknown(error.to_string()))?;
    let objects = match listed.into_iter().next() {
        Some(ListResult::All { objects, .. }) => objects,
        Some(ListResult::Rejected(error)) => return Err(unknown(error.to_string())),
        Some(ListResult::TooMany { max_objects }) => {
            return Err(unknown(format!("more than {max_objects}")));
        }
        None => Vec::new(),
    };
    let objects = objects.iter();
    let events: Vec<Value> = objects
        .filter_map(|json| serde_json::from_str(json).ok())
        .collect();
    let of_pod = events.iter().filter(|event| {
        event["involvedObject"]["name"] == pod.name && event["reason"] == "FailedCreatePodSandBox"
    });
    let latest = of_pod.max_by_key(|event| time(event).unwrap_or_default().to_owned());
    Ok(latest.and_then(|event| event["message"].as_str().map(str::to_owned)))
}

/// The time of an event. The API server writes all of them in one format, in which they sort as text.
fn time(event: &Value) -> Option<&str> {
    let fields = ["lastTimestamp", "eventTime", "firstTimestamp"];
    fields.iter().find_map(|field| event[*field].as_str())
}
