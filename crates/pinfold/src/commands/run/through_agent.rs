//! `pinfold run` on a node with an agent: the agent admits a pod for the run and pins this process; the command inherits
//! CPUs and memory.

use std::ffi::OsString;
use std::process::ExitCode;

use pinfold_agent_api::{AdmissionResponse, PinResult, PinTarget};
use pinfold_standalone::{RunRequest, SignalForwarder};
use serde_json::{Value, json};

use super::{environment, not_run};
use crate::agent_client::{AgentClient, RequestError};
use crate::commands::admit;
use crate::exit::Failure;

/// Admits a pod for the command, pins this process to it, runs the command, and releases the pod.
pub(super) fn run(
    agent: &AgentClient,
    request: &RunRequest,
    name: &str,
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    if request.exclusive {
        return Err(Failure::BadInput(
            "--exclusive cannot be combined with an agent: its configuration decides about cpuset partitions (cgroups.partitions)".into(),
        ));
    }
    // Before the pod is admitted: from now on signals are forwarded to the command, so that the pod is always released.
    let passing = SignalForwarder::new().map_err(environment)?;
    let pid = std::process::id();
    let manifest = manifest(request, u64::from(pid), name).to_string();
    let admitted: AdmissionResponse = match agent.send("POST", "/v1/pods", manifest.as_bytes()) {
        Ok(admitted) => admitted,
        Err(error) => return error.about_command(name).into_exit_code(),
    };
    let uid = &admitted.pod.uid;
    let code = match enforce(agent, &admit::path(uid, "/pin"), pid) {
        Ok(_) => passing.run(command).map_err(environment),
        Err(error) => Err(error.into()),
    };
    let released: Result<Value, RequestError> = agent.send("DELETE", &admit::path(uid, ""), b"");
    let code = code?;
    if let Err(error) = released {
        Failure::from(error).report(crate::PROGRAM);
    }
    Ok(match code {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => not_run(command, &error),
    })
}

fn enforce(agent: &AgentClient, path: &str, pid: u32) -> Result<PinResult, RequestError> {
    let target = PinTarget {
        container: None,
        pid: Some(pid),
        cgroup: None,
    };
    let body =
        serde_json::to_vec(&target).map_err(|error| RequestError::Connection(error.to_string()))?;
    agent.send("POST", path, &body)
}

/// The manifest of a pod with the resources of the run.
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
    fn the_manifest_requests_the_resources_of_the_run() {
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
