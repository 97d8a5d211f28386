//! Requests to the extender that are none of kube-scheduler's.

use serde_json::{Value, json};

use super::super::extender::Extender;
use super::super::pods::{cpus, pod};
use super::super::stage::Stage;
use super::{as_scheduler, client};
use crate::control_plane::Admin;
use crate::report::equal;

/// More than any list of names of a cluster is.
const OVERSIZED: usize = 64 << 20;

fn asked() -> Value {
    let mut pod = pod("asked", "no-scheduler", &[cpus(1)]);
    pod["metadata"]["uid"] = json!("asked");
    json!({ "Pod": pod, "NodeNames": [] })
}

/// A client without a certificate gets no answer.
pub(super) fn without_certificate(stage: &Stage, extender: &Extender) -> Result<(), String> {
    let anonymous = client(stage, extender, &json!({}))?;
    match anonymous.ask("POST", "/filter", Some(&asked())) {
        Ok((code, answer)) => Err(format!("was answered: {code} {answer}")),
        Err(_) => alive(stage, extender),
    }
}

fn known(stage: &Stage, extender: &Extender) -> Result<Admin, String> {
    client(stage, extender, &as_scheduler(stage))
}

/// Whatever is too long or makes no sense is rejected.
pub(super) fn malformed(stage: &Stage, extender: &Extender) -> Result<(), String> {
    let client = known(stage, extender)?;
    let long = json!({ "NodeNames": ["x".repeat(OVERSIZED)] });
    // The connection may be closed before everything is sent, which is an answer, too.
    if let Ok((code, _)) = client.ask("POST", "/filter", Some(&long)) {
        equal("oversized", code, 413)?;
    }
    for nonsense in [json!("text"), json!([]), json!({}), json!({ "Pod": 7 })] {
        let (code, answer) = client.ask("POST", "/filter", Some(&nonsense))?;
        let rejected = (400..500).contains(&code) || answer["Error"].is_string();
        equal(
            &format!("{nonsense} is rejected: {code} {answer}"),
            rejected,
            true,
        )?;
    }
    let (code, _) = client.ask("POST", "/elsewhere", Some(&asked()))?;
    equal("another path", code, 404)?;
    alive(stage, extender)
}

/// The extender still answers requests like those of kube-scheduler.
fn alive(stage: &Stage, extender: &Extender) -> Result<(), String> {
    let (code, _) = known(stage, extender)?.ask("POST", "/filter", Some(&asked()))?;
    equal("answer", code, 200)
}
