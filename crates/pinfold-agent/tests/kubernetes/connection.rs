//! Kubeconfig files, in-cluster credentials, and keeping the token out of messages.

use pinfold_agent::kubernetes::{Connection, ConnectionError, Kubernetes, Timing};
use tempfile::TempDir;

use super::server::{Answer, Server, TOKEN, kubeconfig, status};
use super::{connect, logged, quick};

fn from_text(text: &str) -> Result<Connection, ConnectionError> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    Connection::from_kubeconfig(&path)
}

#[test]
fn the_error_of_an_invalid_kubeconfig_names_the_cause_and_not_the_token() {
    let missing = Connection::from_kubeconfig("/does/not/exist".as_ref()).unwrap_err();
    assert!(missing.to_string().contains("/does/not/exist"), "{missing}");
    let cases = [
        (
            kubeconfig("http://x").replace("\"token\"", "}: [\"token\""),
            "is not a kubeconfig",
        ),
        (
            kubeconfig("http://x").replace(
                "\"current-context\":\"test\"",
                "\"current-context\":\"gone\"",
            ),
            "gone",
        ),
        (kubeconfig("not a url"), "url"),
    ];
    for (text, expected) in cases {
        let error = from_text(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains(TOKEN), "{shown}");
    }
}

#[test]
fn in_cluster_credentials_outside_a_pod_are_an_error() {
    // In a pod there are credentials, and nothing to test.
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        let error = Connection::in_cluster().unwrap_err();
        assert!(error.to_string().contains("name a kubeconfig"), "{error}");
    }
}

#[test]
fn an_invalid_node_name_is_rejected_before_any_request() {
    let connection = from_text(&kubeconfig("http://127.0.0.1:1")).unwrap();
    let error = Kubernetes::start(&connection, "a/../b", Timing::default(), |_| {}).unwrap_err();
    assert!(matches!(error, ConnectionError::NodeName(_)), "{error}");
}

#[test]
fn the_token_is_sent_and_never_logged() {
    let server = Server::start(|_| status(401, "Unauthorized"));
    let (client, log) = connect(&server, quick());
    logged(&log, "the rejection is logged", |event| {
        event.to_string().contains("token still valid")
    });
    assert_eq!(server.asked()[0].authorization, format!("Bearer {TOKEN}"));
    let shown = format!(
        "{:?} {client:?} {:?}",
        log.lock().unwrap(),
        server.connection()
    );
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[test]
fn the_client_stops_while_a_request_is_pending() {
    let server = Server::start(|_| Answer::Never);
    let (client, _) = connect(&server, quick());
    drop(client);
}
