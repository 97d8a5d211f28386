//! Names of pods, nodes and namespaces from the API server, for completion.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pinfold_apiserver::Connection;
use pinfold_apiserver::snapshot::{ListRequest, ListResult, snapshot};
use serde::Deserialize;

/// How long a shell waits for names.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most objects that are listed.
const MOST: usize = 20_000;

/// The kinds of objects with names to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedKind {
    /// Pods of the namespace that `-n` names.
    Pod,
    /// Pods as `NAMESPACE/POD`.
    PodOfAnyNamespace,
    Node,
    Namespace,
}

/// The part of an object with its name.
#[derive(Deserialize)]
struct NamedObject {
    metadata: NamedMeta,
}

#[derive(Deserialize)]
struct NamedMeta {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// The names of this kind that begin like the last word. Empty if the API server does not list them: completion has no
/// place for an error.
pub(super) fn list(kind: NamedKind, words: &[&str]) -> Vec<String> {
    let last = words.last().copied().unwrap_or_default();
    let kubeconfig = flag(words, "--kubeconfig", None).map(Path::new);
    let Ok(connection) = Connection::find(kubeconfig, flag(words, "--context", None)) else {
        return Vec::new();
    };
    let Some(path) = path(kind, words) else {
        return Vec::new();
    };
    let request = ListRequest {
        paths: vec![path],
        field_selector: String::new(),
        page_size: 500,
        max_objects: MOST,
    };
    let (done, listed) = mpsc::channel();
    thread::spawn(move || {
        // Nothing receives the names after the timeout.
        let _ = done.send(snapshot(&connection, &[request]));
    });
    let Ok(Ok(listed)) = listed.recv_timeout(TIMEOUT) else {
        return Vec::new();
    };
    let objects = listed.into_iter().flat_map(|list| match list {
        ListResult::All { objects, .. } => objects,
        ListResult::Rejected(_) | ListResult::TooMany { .. } => Vec::new(),
    });
    let name = |json: String| {
        let NamedMeta { name, namespace } =
            serde_json::from_str::<NamedObject>(&json).ok()?.metadata;
        Some(match kind {
            NamedKind::PodOfAnyNamespace => format!("{namespace}/{name}"),
            NamedKind::Pod | NamedKind::Node | NamedKind::Namespace => name,
        })
    };
    let names = objects.filter_map(name);
    names.filter(|name| name.starts_with(last)).collect()
}

/// The list of the API server; `None` if the namespace is not a valid name, which could change the path.
fn path(kind: NamedKind, words: &[&str]) -> Option<String> {
    Some(match kind {
        NamedKind::Node => "/api/v1/nodes".to_owned(),
        NamedKind::Namespace => "/api/v1/namespaces".to_owned(),
        NamedKind::PodOfAnyNamespace => "/api/v1/pods".to_owned(),
        NamedKind::Pod => {
            let namespace = flag(words, "--namespace", Some("-n")).unwrap_or("default");
            let mut bytes = namespace.bytes();
            if !bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return None;
            }
            format!("/api/v1/namespaces/{namespace}/pods")
        }
    })
}

/// The value of a flag before the last word.
fn flag<'w>(words: &[&'w str], long: &str, short: Option<&str>) -> Option<&'w str> {
    let (_, before) = words.split_last()?;
    let mut values = before.iter().enumerate().filter_map(|(index, word)| {
        if *word == long || Some(*word) == short {
            return before.get(index + 1).copied();
        }
        word.strip_prefix(long)?.strip_prefix('=')
    });
    values.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_listed_in_the_namespace_of_the_flag() {
        for (words, expected) in [
            (
                &["explain", "pod", ""][..],
                Some("/api/v1/namespaces/default/pods"),
            ),
            (
                &["explain", "pod", "-n", "ml", ""],
                Some("/api/v1/namespaces/ml/pods"),
            ),
            (
                &["explain", "pod", "--namespace=ml", ""],
                Some("/api/v1/namespaces/ml/pods"),
            ),
            (&["explain", "pod", "-n", "../x", ""], None),
        ] {
            assert_eq!(
                path(NamedKind::Pod, words).as_deref(),
                expected,
                "{words:?}"
            );
        }
    }
}
