//! `pinfold admit` and `pinfold release`: pods come to a node without Kubernetes, and leave it.

use std::path::PathBuf;
use std::process::ExitCode;

use pinfold_agent::http::{AdmittedPod, ContainerReport, PinResult, PinTarget};
use pinfold_core::name::PodUid;
use serde::Serialize;

use crate::agent_client::{AgentArg, AgentClient, Unanswered};
use crate::args::Format;
use crate::exit::Failure;
use crate::input::Source;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    pinfold admit pod.yaml                              a place for a pod\n  \
    pinfold admit pod.yaml --pid 4711                   and a process is put there\n  \
    pinfold admit pod.yaml --cgroup /sys/fs/cgroup/job  or a control group\n\n\
    Exit code 1: the pod was rejected.")]
pub(crate) struct AdmitArgs {
    /// The pod; `-` is standard input
    #[arg(value_name = "POD")]
    pod: PathBuf,
    /// Confine this process to what the pod was given
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Confine this control group to what the pod was given
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
    /// The uid of the pod, or its namespace and name (default/web) if it came without one
    #[arg(value_name = "UID")]
    uid: String,
    #[command(flatten)]
    agent: AgentArg,
}

/// What programs get.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    admitted: &'a AdmittedPod,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforced: Option<&'a PinResult>,
}

pub(crate) fn admit(args: &AdmitArgs) -> Result<ExitCode, Failure> {
    let source = Source::open(&args.pod)?;
    let agent = AgentClient::new(&args.agent.socket);
    let admitted: AdmittedPod = match agent.ask("POST", "/v1/pods", &source.bytes) {
        Ok(admitted) => admitted,
        Err(unanswered) => return unanswered.end(),
    };
    let enforced = match enforce(&agent, args, &admitted.pod.uid) {
        Ok(enforced) => enforced,
        Err(unanswered) => {
            // A pod whose process cannot be put in its place would hold it for nobody.
            let _: Result<serde_json::Value, _> =
                agent.ask("DELETE", &path(&admitted.pod.uid, ""), b"");
            return unanswered.end();
        }
    };
    let answer = Answer {
        admitted: &admitted,
        enforced: enforced.as_ref(),
    };
    output::print_as(args.output, &answer, || text(&admitted, enforced.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

fn enforce(
    agent: &AgentClient,
    args: &AdmitArgs,
    pod: &PodUid,
) -> Result<Option<PinResult>, Unanswered> {
    if args.pid.is_none() && args.cgroup.is_none() {
        return Ok(None);
    }
    let target = PinTarget {
        container: None,
        pid: args.pid,
        cgroup: args.cgroup.clone(),
    };
    let body = serde_json::to_vec(&target).map_err(|error| Unanswered::Lost(error.to_string()))?;
    agent.ask("POST", &path(pod, "/pin"), &body).map(Some)
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    let agent = AgentClient::new(&args.agent.socket);
    let uid = args.uid.as_str().into();
    let left: Result<serde_json::Value, Unanswered> = agent.ask("DELETE", &path(&uid, ""), b"");
    match left {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(unanswered) => unanswered.end(),
    }
}

/// The path of a pod in the API. Only what cannot stand in a path is escaped.
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

fn text(admitted: &AdmittedPod, enforced: Option<&PinResult>) -> String {
    let mut text = format!("{} (uid {})\n", admitted.pod.name, admitted.pod.uid);
    for container in &admitted.pod.containers {
        text.push_str(&format!("  {}: {}\n", container.name, describe(container)));
    }
    if let Some(enforced) = enforced {
        text.push_str(&format!("  held by {}\n", enforced.method));
    }
    text
}

/// `CPUs 2-3 (its own), memory of NUMA nodes 1, nvidia.com/gpu gpu0`.
pub(crate) fn describe(container: &ContainerReport) -> String {
    let whose = match container.exclusive_cpus {
        true => "its own",
        false => "shared",
    };
    let mut told = format!("CPUs {} ({whose})", container.cpus);
    if !container.memory_nodes.is_empty() {
        told.push_str(&format!(", memory of NUMA {}", container.memory_nodes));
    }
    for devices in &container.devices {
        told.push_str(&format!(
            ", {} {}",
            devices.resource,
            devices.device_ids.join(" ")
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_step_of_a_path() {
        for (uid, expected) in [
            ("5c7e-1", "/v1/pods/5c7e-1/pin"),
            ("default/web", "/v1/pods/default%2Fweb/pin"),
            ("a b\r\n?#", "/v1/pods/a%20b%0D%0A%3F%23/pin"),
        ] {
            assert_eq!(path(&uid.into(), "/pin"), expected);
        }
    }
}
