//! What is in flight between scheduler and kubelet: pods that wait for volumes, reports that did not come yet, resizes
//! that are not done, and pods of another scheduler.

use serde_json::{Value, json};

use super::faults::none_rejected;
use super::kubelets::TOPOLOGIES;
use super::machines;
use super::pods::{PODS, cpus, on, pod, shared};
use super::stage::{Stage, eventually};
use super::stories::leave;
use crate::report::{Report, equal, say};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
/// The class of volumes that are provisioned when a pod is scheduled.
const CLASS: &str = "late";
/// The annotation by which kube-scheduler asks for a volume on a node.
const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// Plays the stories.
pub(crate) fn run(report: &mut Report, stage: &Stage, [stock, ours]: [&str; 2]) {
    let mut check = |name: &str, outcome: Result<(), String>| {
        let cleared = stage.clear().and_then(|()| leave(stage));
        report.check(format_args!("cluster: {name}"), outcome.and(cleared));
    };
    check(
        "pods that wait for their volumes hold their place",
        late_volumes(stage, ours),
    );
    check(
        "a node without its first report takes only pods without NUMA needs",
        fresh(stage, ours),
    );
    check(
        "an in-place resize that can never be granted does not block its node",
        resize(stage, ours),
    );
    check(
        "a pod that another scheduler binds to a node that will reject it gets an event, and ours are not rejected",
        two_schedulers(stage, stock, ours),
    );
}

/// Two pods of five CPUs wait for volumes. Five CPUs are left in sum, two and three on the NUMA nodes.
fn late_volumes(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 8 cores, mem=16Gi";
    let node = machines::node("late-volumes", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    let class = json!({
        "metadata": { "name": CLASS }, "provisioner": "example.com/late",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    stage.admin.expect("POST", CLASSES, Some(&class))?;
    let names = ["late-0", "late-1"];
    for name in names {
        let claim = json!({
            "metadata": { "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        stage.admin.expect("POST", CLAIMS, Some(&claim))?;
        let mut pod = pod(name, ours, &[cpus(5)]);
        pod["spec"]["volumes"] =
            json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
        stage.create(&pod)?;
    }
    for name in names {
        eventually("a volume is asked for", || {
            let claim = stage
                .admin
                .expect("GET", &format!("{CLAIMS}/{name}"), None)?;
            let node = &claim["metadata"]["annotations"][SELECTED];
            equal(name, node.as_str(), Some("late-volumes"))
        })?;
    }
    stage.create(&pod("third", ours, &[cpus(5)]))?;
    let words = stage.waits("third")?;
    say(format_args!("        {words}"));
    let named = words.contains("NUMA");
    equal(&format!("{words} names the NUMA nodes"), named, true)?;
    for name in names {
        provision(stage, name)?;
    }
    for name in names {
        stage.runs(name)?;
    }
    let pod = stage.admin.expect("GET", &format!("{PODS}/third"), None)?;
    equal("third is bound", pod["spec"]["nodeName"].is_string(), false)?;
    none_rejected(stage)?;
    for name in names {
        stage.delete(name)?;
        for path in [format!("{CLAIMS}/{name}"), format!("{VOLUMES}/{name}")] {
            let free = json!({ "metadata": { "finalizers": null } });
            stage.admin.expect("DELETE", &path, None)?;
            let _ = stage.admin.ask("PATCH", &path, Some(&free))?;
        }
    }
    stage
        .admin
        .expect("DELETE", &format!("{CLASSES}/{CLASS}"), None)
        .map(drop)
}

/// Makes the volume of a claim and binds both, as a provisioner and the controllers do.
fn provision(stage: &Stage, name: &str) -> Result<(), String> {
    let path = format!("{CLAIMS}/{name}");
    let claim = stage.admin.expect("GET", &path, None)?;
    let volume = json!({
        "metadata": { "name": name, "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": { "path": "/tmp" },
            "claimRef": {
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": name,
                "uid": claim["metadata"]["uid"],
            },
        },
    });
    stage.admin.expect("POST", VOLUMES, Some(&volume))?;
    let bound = json!({ "status": { "phase": "Bound" } });
    stage
        .admin
        .expect("PATCH", &format!("{VOLUMES}/{name}/status"), Some(&bound))?;
    let with_volume = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": name },
    });
    stage.admin.expect("PATCH", &path, Some(&with_volume))?;
    let status = json!({ "status": {
        "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
    } });
    stage
        .admin
        .expect("PATCH", &format!("{path}/status"), Some(&status))
        .map(drop)
}

/// A Node object is there before the agent's first report.
fn fresh(stage: &Stage, ours: &str) -> Result<(), String> {
    const NAME: &str = "fresh";
    let text = "2 sockets, 8 cores, mem=16Gi";
    let node = machines::node(NAME, text, "single-numa-node", "container")?;
    stage
        .admin
        .expect("POST", "/api/v1/nodes", Some(&node.node()))?;
    let bound = |name: &str| {
        eventually(&format!("{name} is bound"), || {
            let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
            equal(name, pod["spec"]["nodeName"].as_str(), Some(NAME))
        })
    };
    stage.create(&on(pod("aligned", ours, &[cpus(4)]), NAME))?;
    stage.create(&on(pod("free", ours, &[shared("main")]), NAME))?;
    bound("free")?;
    let words = stage.waits("aligned")?;
    say(format_args!("        {words}"));
    let named = words.contains("without a NUMA report");
    equal(&format!("{words} names the report"), named, true)?;
    stage
        .admin
        .expect("POST", TOPOLOGIES, Some(&node.topology()))?;
    bound("aligned")?;
    stage.clear_pods()?;
    stage
        .admin
        .expect("DELETE", &format!("/api/v1/nodes/{NAME}"), None)?;
    stage
        .admin
        .expect("DELETE", &format!("{TOPOLOGIES}/{NAME}"), None)
        .map(drop)
}

/// A pod of four CPUs is asked to have seven of the seven that there are, which its kubelet never grants. A pod of three
/// fits beside it.
fn resize(stage: &Stage, ours: &str) -> Result<(), String> {
    let text = "1 socket, 8 cores, mem=16Gi";
    let node = machines::node("resized", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    stage.create(&pod("resized", ours, &[cpus(4)]))?;
    stage.runs("resized")?;
    let held = json!({ "cpu": "4", "memory": "64Mi" });
    let status = |conditions: Value| {
        let container = json!({
            "name": "main", "ready": true, "restartCount": 0, "image": "i", "imageID": "i",
            "allocatedResources": held, "resources": { "requests": held, "limits": held },
        });
        let status =
            json!({ "status": { "containerStatuses": [container], "conditions": conditions } });
        stage
            .admin
            .expect("PATCH", &format!("{PODS}/resized/status"), Some(&status))
    };
    status(json!([]))?;
    let wanted = json!({ "cpu": "7", "memory": "64Mi" });
    resize_to(stage, &wanted)?;
    stage.create(&pod("beside", ours, &[cpus(3)]))?;
    // In flight the larger amount counts: the kubelet may grant it at any time.
    let words = stage.waits("beside")?;
    say(format_args!("        {words}"));
    status(json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]))?;
    equal("the node", stage.runs("beside")?.as_str(), "resized")?;
    none_rejected(stage)
}

/// Asks for other amounts by the subresource of the pod.
fn resize_to(stage: &Stage, wanted: &Value) -> Result<(), String> {
    let path = format!("{PODS}/resized");
    let mut whole = stage.admin.expect("GET", &path, None)?;
    let resources = &mut whole["spec"]["containers"][0]["resources"];
    *resources = json!({ "requests": wanted, "limits": wanted });
    stage
        .admin
        .expect("PUT", &format!("{path}/resize"), Some(&whole))
        .map(drop)
}

/// The other scheduler sees sums only. Ours counts its pods as soon as they are bound.
fn two_schedulers(stage: &Stage, stock: &str, ours: &str) -> Result<(), String> {
    let text = "2 sockets, 8 cores, mem=16Gi";
    let node = machines::node("shared", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    for name in ["first", "second"] {
        stage.create(&pod(name, ours, &[cpus(4)]))?;
        stage.runs(name)?;
    }
    // Three and four CPUs are left.
    stage.create(&pod("other", stock, &[cpus(6)]))?;
    let path = "/api/v1/namespaces/default/events\
        ?fieldSelector=involvedObject.name%3Dother,reason%3DNodeWillReject";
    let note = eventually("the event is there", || {
        let events = stage.admin.expect("GET", path, None)?;
        let note = events["items"][0]["message"]
            .as_str()
            .or(events["items"][0]["note"].as_str());
        note.map(str::to_owned).ok_or_else(|| "no event".to_owned())
    })?;
    say(format_args!("        {note}"));
    let rejected = stage.kubelets.rejected();
    let is_other = rejected.iter().all(|one| one.pod.ends_with("/other"));
    equal(
        "only the other scheduler's pod was rejected",
        is_other,
        true,
    )?;
    stage.kubelets.forget_rejected();
    // Both bind at the same time: what the other one takes is not promised once it is seen.
    stage.create(&pod("fits", stock, &[cpus(3)]))?;
    stage.runs("fits")?;
    stage.create(&pod("waits", ours, &[cpus(4)]))?;
    stage.create(&pod("waits-too", ours, &[cpus(4)]))?;
    eventually("one of both runs", || {
        let pods = stage.pods()?;
        let is_bound = |name: &&&str| pods[**name]["spec"]["nodeName"].is_string();
        equal(
            "bound",
            ["waits", "waits-too"].iter().filter(is_bound).count(),
            1,
        )
    })?;
    none_rejected(stage)
}
