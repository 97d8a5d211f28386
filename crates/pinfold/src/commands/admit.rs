//! `pinfold admit` and `pinfold release`: ask the node agent to admit or release a pod, without Kubernetes.

use std::path::PathBuf;
use std::process::ExitCode;

use pinfold_agent_api::{AdmissionResponse, ContainerReport, PinResult, PinTarget, PodReport};
use pinfold_core::name::PodUid;
use serde::Serialize;

use crate::agent_client::{AgentArg, AgentClient, RequestError};
use crate::args::Format;
use crate::exit::Failure;
use crate::input::Source;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold admit pod.yaml                              assign CPUs, memory and devices\n  \
    pinfold admit pod.yaml --pid 4711                   and pin a process to them\n  \
    pinfold admit pod.yaml --cgroup /sys/fs/cgroup/job  or a control group\n\n\
    Exit code 1: the pod was rejected.")]
pub(crate) struct AdmitArgs {
    /// The pod; `-` is standard input
    #[arg(value_name = "POD")]
    pod: PathBuf,
    /// Pin this process to the pod's CPUs and memory
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Pin this control group to the pod's CPUs and memory
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    cgroup: Option<PathBuf>,
    #[command(flatten)]
    agent: AgentArg,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// The uid of the pod, or namespace/name (default/web) if its manifest has no uid
    #[arg(value_name = "UID")]
    uid: String,
    #[command(flatten)]
    agent: AgentArg,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The result as JSON or YAML.
#[derive(Serialize)]
struct AdmitReport<'a> {
    #[serde(flatten)]
    admitted: &'a AdmissionResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforced: Option<&'a PinResult>,
}

pub(crate) fn admit(args: &AdmitArgs) -> Result<ExitCode, Failure> {
    let source = Source::open(&args.pod)?;
    let agent = AgentClient::new(&args.agent.socket);
    let admitted: AdmissionResponse = match agent.send("POST", "/v1/pods", &source.bytes) {
        Ok(admitted) => admitted,
        Err(error) => return error.into_exit_code(),
    };
    let enforced = match enforce(&agent, args, &admitted.pod.uid) {
        Ok(enforced) => enforced,
        Err(error) => {
            // Without its process the pod would hold CPUs that nothing uses.
            let _: Result<serde_json::Value, _> =
                agent.send("DELETE", &path(&admitted.pod.uid, ""), b"");
            return error.into_exit_code();
        }
    };
    let report = AdmitReport {
        admitted: &admitted,
        enforced: enforced.as_ref(),
    };
    output::print_as(args.output, &report, || text(&admitted, enforced.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

fn enforce(
    agent: &AgentClient,
    args: &AdmitArgs,
    pod: &PodUid,
) -> Result<Option<PinResult>, RequestError> {
    if args.pid.is_none() && args.cgroup.is_none() {
        return Ok(None);
    }
    let target = PinTarget {
        container: None,
        pid: args.pid,
        cgroup: args.cgroup.clone(),
    };
    let body =
        serde_json::to_vec(&target).map_err(|error| RequestError::Connection(error.to_string()))?;
    agent.send("POST", &path(pod, "/pin"), &body).map(Some)
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    let agent = AgentClient::new(&args.agent.socket);
    let uid = args.uid.as_str().into();
    let released: Result<serde_json::Value, RequestError> =
        agent.send("DELETE", &path(&uid, ""), b"");
    match released {
        Ok(_) => {
            let report = serde_json::json!({"released": uid});
            output::print_as(args.output, &report, String::new)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(RequestError::Status { status: 404, .. }) => {
            let pods: Vec<PodReport> = agent.get("/v1/pods").unwrap_or_default();
            Err(Failure::BadInput(unknown_pod(&args.uid, &pods)))
        }
        Err(error) => error.into_exit_code(),
    }
}

/// Says that the agent has no such pod, and which one may be meant: the pod of that name, or the only one whose uid
/// begins so.
fn unknown_pod(uid: &str, pods: &[PodReport]) -> String {
    let named = |pod: &&PodReport| {
        let name = pod.name.rsplit('/').next();
        pod.name == uid || name == Some(uid)
    };
    let mut meant: Vec<&PodReport> = pods.iter().filter(named).collect();
    if meant.is_empty() && !uid.is_empty() {
        let begins = |pod: &&PodReport| pod.uid.as_str().starts_with(uid);
        meant = pods.iter().filter(begins).collect();
    }
    let hint = match meant.as_slice() {
        [pod] => format!("did you mean {}? ", pod.uid),
        _ => String::new(),
    };
    format!("the agent has no pod {uid}\n  {hint}`pinfold ps` lists its pods")
}

/// The path of a pod in the API, percent-encoded.
pub(crate) fn path(pod: &PodUid, end: &str) -> String {
    let mut path = "/v1/pods/".to_owned();
    for byte in pod.as_str().bytes() {
        match byte {
            b'-' | b'_' | b'.' | b':' | b'~' => path.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path + end
}

fn text(admitted: &AdmissionResponse, enforced: Option<&PinResult>) -> String {
    let mut text = format!("{} (uid {})\n", admitted.pod.name, admitted.pod.uid);
    for container in &admitted.pod.containers {
        text.push_str(&format!("  {}: {}\n", container.name, describe(container)));
    }
    if let Some(enforced) = enforced {
        text.push_str(&format!("  pinned by {}\n", enforced.method));
    }
    text
}

/// `CPUs 2-3 (exclusive), memory of NUMA 1, nvidia.com/gpu gpu0`.
pub(crate) fn describe(container: &ContainerReport) -> String {
    let kind = match container.exclusive_cpus {
        true => "exclusive",
        false => "shared",
    };
    let mut text = match &container.effective_cpus {
        None => format!("CPUs {} ({kind})", container.cpus),
        Some(effective) => format!("CPUs {effective} instead of {} ({kind})", container.cpus),
    };
    if !container.memory_nodes.is_empty() {
        text.push_str(&format!(", memory of NUMA {}", container.memory_nodes));
    }
    for devices in &container.devices {
        text.push_str(&format!(
            ", {} {}",
            devices.resource,
            devices.device_ids.join(" ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_one_percent_encoded_segment_of_the_path() {
        for (uid, expected) in [
            ("5c7e-1", "/v1/pods/5c7e-1/pin"),
            ("default/web", "/v1/pods/default%2Fweb/pin"),
            ("a b\r\n?#", "/v1/pods/a%20b%0D%0A%3F%23/pin"),
        ] {
            assert_eq!(path(&uid.into(), "/pin"), expected);
        }
    }
}
