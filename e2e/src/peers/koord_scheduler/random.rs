//! Random nodes and pods under Koordinator's rules.

use serde_json::{Value, json};

use crate::cluster::pods::{Dice, on, pod};
use crate::peers::stage::{Played, Shape};

/// A machine with its agent and the Node object, and how CPUs are reserved there.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    mode: &'static str,
    dialect: &'static str,
    rules: String,
    labels: Value,
    annotations: Value,
    /// CPUs that no pod may have.
    pub(crate) reserved: &'static str,
    /// By how much Koordinator multiplies the CPUs of the Node, in hundredths.
    ratio: u32,
}

const fn shape(sockets: u32, nodes: u32, cores: u32, threads: u32) -> Shape {
    Shape {
        sockets,
        nodes,
        cores,
        threads,
        gib: 16,
    }
}

/// Machines of 1, 2, 4 and 8 NUMA nodes. CPUs are reserved by the agent's configuration, by the kubelet, by the Node's
/// annotation as a list, and by nothing on the amplified one.
pub(crate) fn machines(dice: &mut Dice, round: u64) -> Vec<Machine> {
    let kinds = [
        (shape(1, 1, 8, 2), "manage", "koordinator", "0", 100),
        (shape(2, 1, 6, 2), "manage", "koordinator", "0-1", 100),
        (shape(2, 2, 4, 2), "mirror", "kubelet", "0,16", 100),
        (shape(4, 2, 3, 1), "manage", "koordinator", "0,23", 100),
        (shape(2, 1, 4, 2), "manage", "koordinator", "", 150),
    ];
    let kinds = kinds.into_iter().enumerate();
    kinds
        .map(|(kind, (shape, mode, dialect, reserved, ratio))| {
            let mut labels = json!({});
            let policy = dice.one_of(&["", "BestEffort", "Restricted", "SingleNUMANode"]);
            if !policy.is_empty() {
                labels["node.koordinator.sh/numa-topology-policy"] = policy.into();
            }
            if dice.says(30) {
                labels["node.koordinator.sh/cpu-bind-policy"] =
                    dice.one_of(&["FullPCPUsOnly", "SpreadByPCPUs"]).into();
            }
            if dice.says(40) {
                labels["node.koordinator.sh/numa-allocate-strategy"] =
                    dice.one_of(&["MostAllocated", "LeastAllocated"]).into();
            }
            let mut annotations = json!({});
            let by_configuration = format!("reservedSystemCPUs: '{reserved}'\n");
            let mut rules = String::new();
            match kind {
                0 => rules = by_configuration,
                2 => {
                    let static_manager = "cpuManagerPolicy: static\ntopologyManagerPolicy: none\n";
                    rules = static_manager.to_owned() + &by_configuration;
                }
                1 | 3 => {
                    let reservation = json!({ "reservedCPUs": reserved }).to_string();
                    annotations["node.koordinator.sh/reservation"] = reservation.into();
                }
                _ => {
                    let raw = json!({ "cpu": shape.cpus().to_string() }).to_string();
                    annotations["node.koordinator.sh/raw-allocatable"] = raw.into();
                    let ratio = json!({ "cpu": f64::from(ratio) / 100.0 }).to_string();
                    annotations["node.koordinator.sh/resource-amplification-ratio"] = ratio.into();
                }
            }
            let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            Machine {
                name: format!("round-{round}-machine-{kind}"),
                shape,
                mode,
                dialect,
                rules: format!("{head}{rules}"),
                labels,
                annotations,
                reserved,
                ratio,
            }
        })
        .collect()
}

impl Machine {
    /// How its agent is started.
    pub(crate) fn played(&self) -> Played<'_> {
        Played {
            name: &self.name,
            shape: self.shape,
            mode: self.mode,
            dialect: self.dialect,
            rules: &self.rules,
            kubernetes: json!({ "publish": ["v1alpha2", "v1alpha1"] }),
        }
    }

    /// Whether the kubelet assigns CPUs there, so that its state file has to exist.
    pub(crate) fn is_kubelet_s(&self) -> bool {
        self.mode == "mirror"
    }

    /// The Node object.
    pub(crate) fn node(&self) -> Value {
        let mut node = self.shape.node(&self.name, &self.labels, &self.annotations);
        let cpus = self.shape.cpus() * self.ratio / 100;
        for amounts in ["capacity", "allocatable"] {
            node["status"][amounts]["cpu"] = cpus.to_string().into();
        }
        node
    }
}

/// A random pod for one node: every class, bind policy, exclusive policy and NUMA policy. The NUMA policy `None` is left
/// out: koord-scheduler 1.8.0 ends with a nil pointer when it meets it.
pub(crate) fn random_pod(dice: &mut Dice, name: &str, scheduler: &str, machine: &Machine) -> Value {
    let class = dice.one_of(&["LSE", "LSR", "LSR", "LS", "BE", ""]);
    let binds = class.starts_with("LS") && class != "LS";
    let most = u64::from(machine.shape.cpus() / 2).max(2);
    let milli = match binds {
        true if dice.says(70) => 1000 * (1 + dice.below(4)),
        true => 1000 * (1 + dice.below(most)),
        false => 100 * (1 + dice.below(most * 5)),
    };
    let cpu = format!("{milli}m");
    let memory = format!("{}Mi", 64 << dice.below(7));
    let requests = json!({ "cpu": cpu, "memory": memory });
    let mut resources = json!({ "requests": requests });
    if binds || dice.says(50) {
        resources["limits"] = requests;
    }
    let container = json!({ "name": "main", "image": "none", "resources": resources });
    let mut pod = on(pod(name, scheduler, &[container]), &machine.name);
    if !class.is_empty() {
        let priority = if class == "BE" {
            "koord-batch"
        } else {
            "koord-prod"
        };
        pod["metadata"]["labels"] = json!({
            "koordinator.sh/qosClass": class, "koordinator.sh/priority-class": priority,
        });
    }
    let mut spec = json!({});
    if dice.says(70) {
        let required = dice.says(30);
        let field = if required {
            "requiredCPUBindPolicy"
        } else {
            "preferredCPUBindPolicy"
        };
        let policies = ["FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst", "Default"];
        spec[field] = dice.one_of(&policies[..if binds { 2 } else { 4 }]).into();
    }
    if dice.says(40) {
        spec["preferredCPUExclusivePolicy"] =
            dice.one_of(&["PCPULevel", "NUMANodeLevel", "None"]).into();
    }
    let annotations = &mut pod["metadata"]["annotations"];
    *annotations = json!({});
    if spec != json!({}) {
        annotations["scheduling.koordinator.sh/resource-spec"] = spec.to_string().into();
    }
    if dice.says(20) {
        let mut spec = json!({
            "numaTopologyPolicy": dice.one_of(&["BestEffort", "Restricted", "SingleNUMANode"]),
        });
        if dice.says(30) {
            spec["singleNUMANodeExclusive"] = dice.one_of(&["Required", "Preferred"]).into();
        }
        annotations["scheduling.koordinator.sh/numa-topology-spec"] = spec.to_string().into();
    }
    pod
}
