//! Finding the server, and keeping what is secret.

use pinfold_agent::kubernetes::{Connection, ConnectionError, Kubernetes, Timing};
use tempfile::TempDir;

use crate::server::{Answer, Server, TOKEN, kubeconfig, status};
use crate::{link, quick, remarked};

fn from_text(text: &str) -> Result<Connection, ConnectionError> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    Connection::from_kubeconfig(&path)
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_named_with_what_to_do() {
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
fn a_place_that_is_no_pod_says_so() {
    // Tests do not run in pods; if they do, there is nothing to test.
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        let error = Connection::in_cluster().unwrap_err();
        assert!(error.to_string().contains("name a kubeconfig"), "{error}");
    }
}

#[test]
fn a_name_that_is_no_nodes_is_rejected_before_anything_is_sent() {
    let connection = from_text(&kubeconfig("http://127.0.0.1:1")).unwrap();
    let error = Kubernetes::start(&connection, "a/../b", Timing::default(), |_| {}).unwrap_err();
    assert!(matches!(error, ConnectionError::NodeName(_)), "{error}");
}

#[test]
fn the_token_is_sent_and_never_shown() {
    let server = Server::start(|_| status(401, "Unauthorized"));
    let (link, said) = link(&server, quick());
    remarked(&said, "the rejection is told", |remark| {
        remark.to_string().contains("token still valid")
    });
    assert_eq!(server.asked()[0].authorization, format!("Bearer {TOKEN}"));
    let shown = format!(
        "{:?} {link:?} {:?}",
        said.lock().unwrap(),
        server.connection()
    );
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[test]
fn a_server_that_never_answers_keeps_nobody_from_stopping() {
    let server = Server::start(|_| Answer::Never);
    let (link, _) = link(&server, quick());
    drop(link);
}
