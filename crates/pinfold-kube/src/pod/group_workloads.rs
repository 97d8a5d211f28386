//! Objects that create several groups of pods: JobSet, LeaderWorkerSet, Kubeflow's training jobs, and Ray's clusters.
//!
//! Pods are named as the controllers name them, without random suffixes:
//!
//! | kind | pods |
//! |---|---|
//! | JobSet | `<set>-<replicated job>-<job>-<pod>` |
//! | LeaderWorkerSet | leader `<set>-<group>`, workers `<set>-<group>-<worker>` from 1 on |
//! | PyTorchJob, TFJob, MPIJob and others | `<job>-<replica type>-<pod>` |
//! | RayCluster | `<cluster>-head`, `<cluster>-<worker group>-worker-<pod>` |

use super::expansion::Expansion;
use super::workload::{count_of, job_count, required_map};
use crate::manifest::field::FieldRef;

/// The fields with the replica types of Kubeflow's training jobs, by kind.
pub(super) const REPLICA_SPECS: &[(&str, &str)] = &[
    ("PyTorchJob", "pytorchReplicaSpecs"),
    ("TFJob", "tfReplicaSpecs"),
    ("MPIJob", "mpiReplicaSpecs"),
    ("XGBoostJob", "xgbReplicaSpecs"),
    ("PaddleJob", "paddleReplicaSpecs"),
    ("JAXJob", "jaxReplicaSpecs"),
    ("MXJob", "mxReplicaSpecs"),
];

/// Adds the pods of a JobSet.
pub(super) fn job_set(to: &mut Expansion<'_>) {
    if let Some(spec) = spec(to) {
        let what = "a list of replicated jobs";
        for job in spec.get_list("replicatedJobs", what, to.report) {
            replicated_job(&job, to);
        }
    }
}

fn replicated_job(job: &FieldRef<'_>, to: &mut Expansion<'_>) {
    let name = job.required_text("name", "the replicated job's name", to.report);
    let jobs = count_of(job, "replicas", to.report).unwrap_or(1);
    let template = required_map(job, "template", "a job template", to.report);
    let spec = template
        .and_then(|template| required_map(&template, "spec", "a job specification", to.report));
    let (Some(name), Some(spec)) = (name, spec) else {
        return;
    };
    let pods = job_count(&spec, to.report);
    let name = format!("{}-{name}", to.owner.name);
    let Some(model) = to.template(&spec, "template", &name) else {
        return;
    };
    if !to.has_room(jobs.saturating_mul(pods)) {
        return;
    }
    for number in 0..if pods == 0 { 0 } else { jobs } {
        let mut job = model.clone();
        job.meta.name = format!("{name}-{number}");
        to.push_numbered(&job, 0, pods);
    }
}

/// Adds the pods of a LeaderWorkerSet.
pub(super) fn leader_worker_set(to: &mut Expansion<'_>) {
    let Some(spec) = spec(to) else {
        return;
    };
    let groups = count_of(&spec, "replicas", to.report).unwrap_or(1);
    let what = "the templates of a group";
    let Some(group) = required_map(&spec, "leaderWorkerTemplate", what, to.report) else {
        return;
    };
    let size = count_of(&group, "size", to.report).unwrap_or(1);
    let name = to.owner.name.clone();
    let Some(worker) = to.template(&group, "workerTemplate", &name) else {
        return;
    };
    let leader = match group.get("leaderTemplate") {
        Some(template) => to.model(&template, &name),
        None => Some(worker.clone()),
    };
    let Some(leader) = leader else {
        return;
    };
    if size == 0 || !to.has_room(groups.saturating_mul(size)) {
        return;
    }
    for number in 0..groups {
        to.push_numbered(&leader, number, 1);
        let mut member = worker.clone();
        member.meta.name = format!("{name}-{number}");
        to.push_numbered(&member, 1, size - 1);
    }
}

/// Adds the pods of one of Kubeflow's training jobs, with its replica types under `field`.
pub(super) fn training_job(field: &str, to: &mut Expansion<'_>) {
    let Some(spec) = spec(to) else {
        return;
    };
    let Some(types) = required_map(&spec, field, "replica types with pod templates", to.report)
    else {
        return;
    };
    for (kind, replicas) in types.members() {
        let Some(replicas) = replicas.map("a replica type", to.report) else {
            continue;
        };
        let count = count_of(&replicas, "replicas", to.report).unwrap_or(1);
        let name = format!("{}-{}", to.owner.name, kind.to_ascii_lowercase());
        if let Some(model) = to.template(&replicas, "template", &name) {
            to.push_numbered(&model, 0, count);
        }
    }
}

/// Adds the pods of a Ray cluster whose specification is under `field`, or is the whole `spec`. A job with a
/// `clusterSelector` runs in a cluster that exists.
pub(super) fn ray_cluster(field: Option<&str>, to: &mut Expansion<'_>) {
    let Some(spec) = spec(to) else {
        return;
    };
    if let (Some(_), Some(template)) = (field, spec.get("submitterPodTemplate")) {
        let name = to.owner.name.clone();
        if let Some(model) = to.model(&template, &name) {
            to.push_numbered(&model, 0, 1);
        }
    }
    let cluster = match field {
        Some(_) if spec.get("clusterSelector").is_some() => return,
        Some(field) => required_map(&spec, field, "a Ray cluster", to.report),
        None => Some(spec),
    };
    let Some(cluster) = cluster else {
        return;
    };
    let name = format!("{}-head", to.owner.name);
    let what = "the group of the head pod";
    if let Some(group) = required_map(&cluster, "headGroupSpec", what, to.report)
        && let Some(head) = to.template(&group, "template", &name)
    {
        to.push(head);
    }
    for group in cluster.get_list("workerGroupSpecs", "a list of worker groups", to.report) {
        ray_workers(&group, to);
    }
}

/// Adds the pods of a worker group: `replicas` within `minReplicas` and `maxReplicas`, times `numOfHosts`.
fn ray_workers(group: &FieldRef<'_>, to: &mut Expansion<'_>) {
    let Some(name) = group.required_text("groupName", "the worker group's name", to.report) else {
        return;
    };
    let mut count = |key: &str| count_of(group, key, to.report);
    let least = count("minReplicas").unwrap_or(0);
    let most = count("maxReplicas").unwrap_or(u64::MAX);
    let replicas = count("replicas").unwrap_or(0).max(least).min(most);
    let pods = replicas.saturating_mul(count("numOfHosts").unwrap_or(1));
    let name = format!("{}-{name}-worker", to.owner.name);
    if let Some(model) = to.template(group, "template", &name) {
        to.push_numbered(&model, 0, pods);
    }
}

fn spec<'a>(to: &mut Expansion<'a>) -> Option<FieldRef<'a>> {
    required_map(&to.document.root(), "spec", "a specification", to.report)
}
