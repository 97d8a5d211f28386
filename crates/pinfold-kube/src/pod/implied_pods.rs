//! Objects whose pods are not written out: KubeVirt's virtual machines and Kubeflow's TrainJob.
//!
//! What the object says about CPUs, memory and devices goes into a pod with one container. What its controller adds is
//! not known and is left out, which a warning says.

use std::collections::BTreeMap;

use pinfold_core::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::ObjectMeta;
use super::expansion::Expansion;
use super::workload::{count_of, required_map};
use crate::manifest::field::FieldRef;
use crate::manifest::value::LocatedValue;

/// What a virt-launcher needs beside the guest. KubeVirt computes it from the guest's size and devices; it is about this.
const OVERHEAD: i64 = 256 << 20;
/// KubeVirt requests a tenth of a CPU for each virtual CPU that is not dedicated (`cpuAllocationRatio`).
const MILLIS_PER_SHARED_VCPU: u64 = 100;

/// Adds the virt-launcher pod of a VirtualMachine (`spec.template`) or VirtualMachineInstance.
///
/// Mirrors `renderLaunchManifest` as far as the object goes: dedicated CPUs are requests and limits of
/// `sockets * cores * threads`, plus one for an isolated emulator thread; the guest's memory (or the overhead alone, if the
/// guest has hugepages) is requested, and limited if the CPUs are dedicated.
pub(super) fn virtual_machine(to: &mut Expansion<'_>) {
    let mut at = to.document.root();
    let path: &[&str] = match to.document.kind() {
        "VirtualMachine" => &["spec", "template", "spec", "domain"],
        _ => &["spec", "domain"],
    };
    let mut parent = at.clone();
    for step in path {
        parent = at;
        match required_map(&parent, step, "a virtual machine", to.report) {
            Some(next) => at = next,
            None => return,
        }
    }
    let (domain, machine) = (at, parent);
    let stopped = to.document.root().get("spec").is_some_and(|spec| {
        let halted = spec
            .get("runStrategy")
            .is_some_and(|text| text.is_text("Halted"));
        halted || spec.get("running").and_then(|running| running.plain_bool()) == Some(false)
    });
    if stopped {
        return to.file.without_pods.add("stopped VirtualMachine");
    }
    let mut resources = Resources::of(&domain, to);
    let dedicated = resources.add_cpus(&domain, to);
    resources.add_memory(&domain, dedicated);
    resources.add_devices(&domain, to);
    let spec = json!({
        "containers": [{"name": "compute", "resources": resources.json()}],
        "nodeSelector": machine.get("nodeSelector").map(|field| field.json()),
        "schedulerName": machine.get("schedulerName").map(|field| field.json()),
    });
    let name = format!("virt-launcher-{}", to.owner.name);
    to.warn(format!(
        "{} {}: assumed is a virt-launcher pod of one container with the machine's CPUs and devices, its memory and \
         256 MiB of overhead",
        to.document.kind(),
        to.owner.name
    ));
    push(&name, None, &spec, to);
}

/// Adds the pods of a TrainJob: `numNodes` pods with the trainer's resources. Its other containers are in the training
/// runtime that it names.
pub(super) fn train_job(to: &mut Expansion<'_>) {
    let root = to.document.root();
    let Some(spec) = required_map(&root, "spec", "a specification", to.report) else {
        return;
    };
    let trainer = spec.get_map("trainer", "a trainer", to.report);
    let resources = trainer
        .as_ref()
        .and_then(|trainer| trainer.get("resourcesPerNode"));
    let (Some(trainer), Some(resources)) = (trainer, resources) else {
        to.warn(format!(
            "TrainJob {} has no trainer.resourcesPerNode: its pods are in its training runtime, and are left out",
            to.owner.name
        ));
        return to.file.without_pods.add(to.document.kind());
    };
    let count = count_of(&trainer, "numNodes", to.report).unwrap_or(1);
    let spec = json!({"containers": [{"name": "node", "resources": resources.json()}]});
    let name = format!("{}-node-0", to.owner.name);
    to.warn(format!(
        "TrainJob {}: assumed is one container per pod with trainer.resourcesPerNode; its training runtime may add others",
        to.owner.name
    ));
    push(&name, Some(count), &spec, to);
}

/// Adds pods of a specification: numbered ones, or one under its own name.
fn push(name: &str, count: Option<u64>, spec: &Value, to: &mut Expansion<'_>) {
    let Ok(node) = LocatedValue::of_json(spec, to.document.at()) else {
        return;
    };
    let spec = FieldRef::new(&node, "spec".to_owned());
    match (to.model_of(ObjectMeta::default(), &spec, name), count) {
        (Some(model), Some(count)) => to.push_numbered(&model, 0, count),
        (Some(model), None) => to.push(model),
        (None, _) => {}
    }
}

/// Requests and limits of the virt-launcher's container.
struct Resources {
    requests: Map<String, Value>,
    limits: Map<String, Value>,
}

impl Resources {
    /// What `domain.resources` says.
    fn of(domain: &FieldRef<'_>, to: &mut Expansion<'_>) -> Self {
        let section = domain.get_map("resources", "a mapping with requests and limits", to.report);
        let list = |key: &str| match section.as_ref().and_then(|section| section.get(key)) {
            Some(field) => match field.json() {
                Value::Object(amounts) => amounts,
                _ => Map::new(),
            },
            None => Map::new(),
        };
        Self {
            requests: list("requests"),
            limits: list("limits"),
        }
    }

    /// Adds the virtual CPUs. Returns whether they are dedicated.
    fn add_cpus(&mut self, domain: &FieldRef<'_>, to: &mut Expansion<'_>) -> bool {
        let cpu = domain.get_map("cpu", "a mapping", to.report);
        let mut number = |key: &str| {
            let number = count_of(cpu.as_ref()?, key, to.report)?;
            Some(number.clamp(1, 1 << 16))
        };
        let parts = [number("sockets"), number("cores"), number("threads")];
        let is_set = |key: &str| {
            let flag = cpu.as_ref().and_then(|cpu| cpu.get(key));
            flag.and_then(|flag| flag.plain_bool()).unwrap_or(false)
        };
        let dedicated = is_set("dedicatedCpuPlacement");
        let written = parts.iter().any(Option::is_some);
        let vcpus: u64 = parts.into_iter().map(|part| part.unwrap_or(1)).product();
        if dedicated {
            let emulator = u64::from(is_set("isolateEmulatorThread"));
            let given = || self.limits.get("cpu").or_else(|| self.requests.get("cpu"));
            let cpus = match (written, given()) {
                (false, Some(given)) => given.clone(),
                _ => json!((vcpus + emulator).to_string()),
            };
            self.requests.insert("cpu".to_owned(), cpus.clone());
            self.limits.insert("cpu".to_owned(), cpus);
        } else if !self.requests.contains_key("cpu") {
            let millis = json!(format!("{}m", vcpus * MILLIS_PER_SHARED_VCPU));
            self.requests.insert("cpu".to_owned(), millis);
        }
        dedicated
    }

    /// Adds the guest's memory, or its hugepages, and the overhead.
    fn add_memory(&mut self, domain: &FieldRef<'_>, dedicated: bool) {
        let memory = domain.get("memory");
        let field = |key: &str| memory.as_ref().and_then(|memory| memory.get(key));
        let guest = field("guest").map(|guest| guest.json());
        let Some(guest) = self.requests.get("memory").cloned().or(guest) else {
            return;
        };
        let size = field("hugepages").and_then(|pages| pages.get("pageSize"));
        let amount = match size.and_then(|size| size.plain_text().map(str::to_owned)) {
            Some(size) => {
                let pages = format!("hugepages-{size}");
                self.requests.insert(pages.clone(), guest.clone());
                self.limits.insert(pages, guest);
                json!(Quantity::from(OVERHEAD).to_string())
            }
            None => with_overhead(&guest),
        };
        self.requests.insert("memory".to_owned(), amount.clone());
        if dedicated {
            self.limits.insert("memory".to_owned(), amount);
        } else if let Some(limit) = self.limits.get_mut("memory") {
            *limit = with_overhead(limit);
        }
    }

    /// Adds GPUs and host devices.
    fn add_devices(&mut self, domain: &FieldRef<'_>, to: &mut Expansion<'_>) {
        let Some(devices) = domain.get_map("devices", "a mapping", to.report) else {
            return;
        };
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for key in ["gpus", "hostDevices"] {
            for device in devices.get_list(key, "a list of devices", to.report) {
                if device.get("claimName").is_some() {
                    let name = &to.owner.name;
                    to.warn(format!(
                        "{name}: devices by resource claims are not simulated"
                    ));
                    continue;
                }
                let name = device.required_text("deviceName", "a resource name", to.report);
                *counts.entry(name.unwrap_or_default()).or_default() += 1;
            }
        }
        for (name, count) in counts.into_iter().filter(|(name, _)| !name.is_empty()) {
            self.requests.insert(name.clone(), json!(count.to_string()));
            self.limits.insert(name, json!(count.to_string()));
        }
    }

    fn json(self) -> Value {
        json!({"requests": self.requests, "limits": self.limits})
    }
}

/// An amount of memory plus the overhead. What is no quantity stays, for the error about it.
fn with_overhead(amount: &Value) -> Value {
    let text = match amount {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.parse::<Quantity>() {
        Ok(quantity) => json!((quantity + Quantity::from(OVERHEAD)).to_string()),
        Err(_) => amount.clone(),
    }
}
