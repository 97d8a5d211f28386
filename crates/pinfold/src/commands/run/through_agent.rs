//! Runs where an agent keeps the node: the agent gives the place and puts this process there, and the command inherits it.

use std::ffi::OsString;
use std::process::ExitCode;

use pinfold_agent::http::{Admitted, Enforced, Target};
use pinfold_standalone::{RunRequest, SignalForwarder};
use serde_json::{Value, json};

use super::{environment, not_run};
use crate::agent_client::{AgentClient, Unanswered};
use crate::commands::admit;
use crate::exit::Failure;

/// Asks for a place, runs the command there, and gives the place back.
pub(super) fn run(
    agent: &AgentClient,
    request: &RunRequest,
    name: &str,
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    if request.exclusive {
        return Err(Failure::BadInput(
            "--exclusive is not for runs of an agent: its configuration says whether CPUs become partitions (cgroups.partitions)".into(),
        ));
    }
    // Before anything is taken: a signal that comes from now on is passed on, not obeyed.
    let passing = SignalForwarder::new().map_err(environment)?;
    let pid = std::process::id();
    let manifest = manifest(request, u64::from(pid), name).to_string();
    let admitted: Admitted = match agent.ask("POST", "/v1/pods", manifest.as_bytes()) {
        Ok(admitted) => admitted,
        Err(unanswered) => return unanswered.end(),
    };
    let uid = &admitted.pod.uid;
    let code = match enforce(agent, &admit::path(uid, "/enforce"), pid) {
        Ok(_) => passing.run(command).map_err(environment),
        Err(unanswered) => Err(unanswered.into()),
    };
    let left: Result<Value, Unanswered> = agent.ask("DELETE", &admit::path(uid, ""), b"");
    let code = code?;
    if let Err(unanswered) = left {
        Failure::from(unanswered).report();
    }
    Ok(match code {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => not_run(command, &error),
    })
}

fn enforce(agent: &AgentClient, path: &str, pid: u32) -> Result<Enforced, Unanswered> {
    let target = Target {
        container: None,
        pid: Some(pid),
        cgroup: None,
    };
    let body = serde_json::to_vec(&target).map_err(|error| Unanswered::Lost(error.to_string()))?;
    agent.ask("POST", path, &body)
}

/// The run as a pod's manifest.
fn manifest(request: &RunRequest, id: u64, name: &str) -> Value {
    let pod = request.pod(id, name);
    let containers = pod.containers.iter().map(|container| {
        let amounts: serde_json::Map<String, Value> = container
            .requests
            .iter()
            .map(|(name, amount)| (name.to_string(), json!(amount.to_string())))
            .collect();
        json!({"name": container.name, "resources": {"requests": amounts, "limits": amounts}})
    });
    let containers: Vec<Value> = containers.collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.uid, "namespace": "runs", "uid": pod.uid},
        "spec": {"containers": containers},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_of_a_run_asks_for_what_the_run_asks_for() {
        let quantity = |text: &str| Some(text.parse().expect("a quantity"));
        let request = RunRequest {
            cpus: quantity("2"),
            memory: quantity("1Gi"),
            ..RunRequest::default()
        };
        let text = manifest(&request, 7, "x").to_string();
        let read = pinfold_kube::pod::read("a run", text.as_bytes()).expect("a pod");
        assert_eq!(read.warnings, []);
        let pod = &read.value[0].pod;
        assert_eq!(pod.uid, "run-7".into());
        assert_eq!(pod.containers, request.pod(7, "x").containers);
    }
}
