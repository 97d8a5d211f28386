//! [`Numatopology`]: the object that Volcano's resource exporter writes for one node.
//!
//! The scheduler's cache is lenient: an invalid CPU list is empty, a CPU without a number is CPU 0, an invalid
//! reservation is none. Exact mode repeats that with warnings, sound mode rejects the object.

use pinfold_cluster::volcano::VolcanoDefects;
use std::collections::BTreeMap;

use pinfold_cluster::volcano::cpu_detail::{CpuDetail, CpuRow};
use pinfold_cluster::volcano::predicate::{NumaInfo, SessionNode};
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;
use pinfold_core::quantity::Quantity;

use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::json_value::{JsonFields, JsonValue, map};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::meta::ObjectMeta;
use crate::node_resource_topology::with_rest;

/// The API version.
pub const API_VERSION: &str = "nodeinfo.volcano.sh/v1alpha1";
/// The kind.
pub const KIND: &str = "Numatopology";

/// The CPUs of a node. The object's name is the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numatopology {
    /// Name, labels and annotations.
    pub meta: ObjectMeta,
    /// `CPUManagerPolicy` and `TopologyManagerPolicy`.
    pub policies: BTreeMap<String, String>,
    /// The reserved amount of each resource.
    pub reserved: BTreeMap<String, String>,
    /// The CPUs of each resource; only `cpu` is used.
    pub resources: BTreeMap<String, ResourceInfo>,
    /// The core, socket and NUMA node of each CPU, by its id.
    pub cpus: BTreeMap<String, CpuInfo>,
    /// Pods with exclusive CPUs.
    pub pods: Vec<PodAllocation>,
    /// All other fields of `spec`.
    pub spec_rest: JsonFields,
    /// All other fields.
    pub rest: JsonFields,
}

/// One resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceInfo {
    /// The CPUs that no container holds exclusively, as a list.
    pub allocatable: String,
    /// The number of CPUs.
    pub capacity: i64,
    /// All other fields.
    pub rest: JsonFields,
}

/// The core, socket and NUMA node of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuInfo {
    /// Its NUMA node.
    pub numa: i64,
    /// Its socket.
    pub socket: i64,
    /// The kernel's core id, unique within the socket.
    pub core: i64,
    /// All other fields.
    pub rest: JsonFields,
}

/// A pod with exclusive CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAllocation {
    /// Its uid, if the exporter has it.
    pub uid: String,
    /// Its name, if the exporter has it.
    pub name: String,
    /// Its namespace, if the exporter has it.
    pub namespace: String,
    /// Its containers.
    pub containers: Vec<ContainerAllocation>,
    /// All other fields.
    pub rest: JsonFields,
}

/// A container with exclusive CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerAllocation {
    /// Its name.
    pub name: String,
    /// A CPU list by resource.
    pub allocations: BTreeMap<String, String>,
    /// All other fields.
    pub rest: JsonFields,
}

impl Numatopology {
    /// Reads a document of this kind.
    ///
    /// # Errors
    /// With every error in the object.
    pub fn read(document: &Document) -> Result<WithWarnings<Self>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        let object = read(document, &mut report);
        report.finish_some(object)
    }

    /// The node as Volcano's scheduler reads it.
    ///
    /// # Errors
    /// With every field that cannot be parsed (sound mode).
    pub fn node(&self, fidelity: Fidelity) -> Result<WithWarnings<SessionNode>, Diagnostics> {
        let mut report =
            DiagnosticReport::for_object(&self.meta.origin.file, KIND, &self.meta.name);
        let numa = self.numa_info(fidelity, &mut report);
        if fidelity.accepts_unreadable_reports() {
            report.downgrade_errors();
        }
        let name = self.meta.name.as_str().into();
        report.finish(SessionNode {
            name,
            numa: Some(numa),
        })
    }

    fn numa_info(&self, fidelity: Fidelity, report: &mut DiagnosticReport) -> NumaInfo {
        let policy = |key: &str| self.policies.get(key).cloned().unwrap_or_default();
        let mut rows = Vec::new();
        for (key, info) in &self.cpus {
            rows.extend(self.row(key, info, fidelity, report));
        }
        let free = self.resources.get("cpu").map(|cpu| {
            CpuSet::parse(&cpu.allocatable).unwrap_or_else(|error| {
                let expected = "a CPU list such as 2-15";
                let path = "spec.numares.cpu.allocatable";
                unexpected(path, expected, &cpu.allocatable, error.to_string(), report);
                CpuSet::new()
            })
        });
        let cpus = CpuDetail::new(rows);
        if let Some(free) = &free
            && !free.is_subset(cpus.all())
        {
            let unknown = free - cpus.all();
            let message = format!("CPUs {unknown} are free and not in cpuDetail");
            let problem = DiagnosticKind::Contradiction(message);
            report.warning(None, "spec.numares.cpu.allocatable", problem, None);
        }
        NumaInfo {
            cpu_manager: policy("CPUManagerPolicy"),
            topology: policy("TopologyManagerPolicy"),
            cpus,
            free,
            reserved: self.reserved_cpu(report),
        }
    }

    /// The reserved CPU. One invalid entry makes the scheduler ignore all reservations.
    fn reserved_cpu(&self, report: &mut DiagnosticReport) -> Option<Quantity> {
        let mut cpu = None;
        for (name, text) in &self.reserved {
            match text.parse::<Quantity>() {
                Ok(amount) if name == "cpu" => cpu = Some(amount),
                Ok(_) => {}
                Err(error) => {
                    let path = format!("spec.resReserved[{name}]");
                    unexpected(
                        &path,
                        "a quantity such as 1500m",
                        text,
                        error.to_string(),
                        report,
                    );
                    return None;
                }
            }
        }
        cpu
    }

    fn row(
        &self,
        key: &str,
        info: &CpuInfo,
        fidelity: Fidelity,
        report: &mut DiagnosticReport,
    ) -> Option<CpuRow> {
        let path = format!("spec.cpuDetail[{key}]");
        let cpu = key.parse::<u32>().ok().and_then(CpuId::new);
        if cpu.is_none() {
            let hint = "use the kernel's number of the CPU".to_owned();
            unexpected(&path, "the id of a CPU, 0 to 4095", key, hint, report);
        }
        let cpu =
            cpu.or_else(|| CpuId::new(0).filter(|_| fidelity.accepts_unreadable_reports()))?;
        let node = NodeId::new(info.numa);
        let socket = u32::try_from(info.socket);
        let core = u32::try_from(info.core);
        let (Ok(node), Ok(socket), Ok(core)) = (node, socket, core) else {
            let expected = "numa 0 to 63, socket and core 0 or more";
            let found = format!(
                "numa {}, socket {}, core {}",
                info.numa, info.socket, info.core
            );
            let hint = "report the numbers of the kernel".to_owned();
            unexpected(&path, expected, &found, hint, report);
            return None;
        };
        Some(CpuRow {
            cpu,
            core,
            node,
            socket,
        })
    }
}

fn unexpected(
    path: &str,
    expected: &str,
    found: &str,
    hint: String,
    report: &mut DiagnosticReport,
) {
    let problem = DiagnosticKind::Unexpected {
        expected: expected.to_owned(),
        found: format!("{found:?}"),
    };
    report.error(None, path, problem, Some(hint));
}

fn read(document: &Document, report: &mut DiagnosticReport) -> Option<Numatopology> {
    let object = document.expect_kind(KIND, &[API_VERSION], report)?;
    let meta = ObjectMeta::read_cluster_scoped(document, report)?;
    let mut topology = Numatopology {
        meta,
        rest: object.rest(&["apiVersion", "kind", "metadata", "spec"]),
        ..Numatopology::default()
    };
    let Some(spec) = object.get_map("spec", "a mapping", report) else {
        return Some(topology);
    };
    topology.policies = texts(&spec, "policies", report);
    topology.reserved = texts(&spec, "resReserved", report);
    for (name, field) in section(&spec, "numares", "resources by name", report) {
        topology.resources.insert(
            name.to_owned(),
            ResourceInfo {
                allocatable: text(&field, "allocatable", "a CPU list", report),
                capacity: number(&field, "capacity", report),
                rest: field.rest(&["allocatable", "capacity"]),
            },
        );
    }
    for (id, field) in section(&spec, "cpuDetail", "CPUs by id", report) {
        topology.cpus.insert(
            id.to_owned(),
            CpuInfo {
                numa: number(&field, "numa", report),
                socket: number(&field, "socket", report),
                core: number(&field, "core", report),
                rest: field.rest(&["numa", "socket", "core"]),
            },
        );
    }
    for field in spec.get_list("podAllocations", "a list of pods", report) {
        topology.pods.push(pod(&field, report));
    }
    topology.spec_rest = spec.rest(&[
        "policies",
        "resReserved",
        "numares",
        "cpuDetail",
        "podAllocations",
    ]);
    Some(topology)
}

/// The members of a mapping that are mappings themselves.
fn section<'n>(
    spec: &FieldRef<'n>,
    key: &str,
    what: &str,
    report: &mut DiagnosticReport,
) -> Vec<(&'n str, FieldRef<'n>)> {
    let members = spec.get_map(key, what, report);
    let members = members.iter().flat_map(FieldRef::members);
    members
        .filter_map(|(name, field)| Some((name, field.map("a mapping", report)?)))
        .collect()
}

fn texts(
    spec: &FieldRef<'_>,
    key: &str,
    report: &mut DiagnosticReport,
) -> BTreeMap<String, String> {
    let members = spec.get_map(key, "texts by name", report);
    let members = members.iter().flat_map(FieldRef::members);
    members
        .filter_map(|(name, field)| {
            let text = field.text("text", report)?;
            Some((name.to_owned(), text.to_owned()))
        })
        .collect()
}

fn text(field: &FieldRef<'_>, key: &str, what: &str, report: &mut DiagnosticReport) -> String {
    let text = field.get_text(key, what, report);
    text.unwrap_or_default().to_owned()
}

fn number(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> i64 {
    let number = field.get(key);
    let number = number.and_then(|number| number.integer("a whole number", report));
    number.unwrap_or(0)
}

fn pod(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> PodAllocation {
    let containers = field.get_list("containerAllocations", "a list of containers", report);
    let containers = containers.iter().map(|field| ContainerAllocation {
        name: text(field, "name", "a container's name", report),
        allocations: texts(field, "allocations", report),
        rest: field.rest(&["name", "allocations"]),
    });
    PodAllocation {
        containers: containers.collect(),
        uid: text(field, "uid", "an id", report),
        name: text(field, "name", "a pod's name", report),
        namespace: text(field, "namespace", "a namespace", report),
        rest: field.rest(&["uid", "name", "namespace", "containerAllocations"]),
    }
}

impl Numatopology {
    /// The object to be written as JSON or YAML. Zeros are left out where the exporter omits them.
    #[must_use]
    pub fn content(&self) -> JsonValue {
        let resources = self.resources.iter().map(|(name, info)| {
            let known = map([
                ("allocatable", some_text(&info.allocatable)),
                ("capacity", some_number(info.capacity)),
            ]);
            (name.clone(), with_rest(known, &info.rest))
        });
        let cpus = self.cpus.iter().map(|(id, info)| {
            let known = map([
                ("numa", some_number(info.numa)),
                ("socket", some_number(info.socket)),
                ("core", some_number(info.core)),
            ]);
            (id.clone(), with_rest(known, &info.rest))
        });
        let mut cpus: JsonFields = cpus.collect();
        cpus.sort_by_key(|(id, _)| (id.parse::<u32>().unwrap_or(u32::MAX), id.clone()));
        let pods: Vec<JsonValue> = self.pods.iter().map(pod_content).collect();
        let spec = map([
            ("policies", some_map(text_fields(&self.policies))),
            ("resReserved", some_map(text_fields(&self.reserved))),
            ("numares", some_map(resources.collect())),
            ("cpuDetail", some_map(cpus)),
            (
                "podAllocations",
                (!pods.is_empty()).then_some(JsonValue::List(pods)),
            ),
        ]);
        let object = map([
            ("apiVersion", Some(API_VERSION.into())),
            ("kind", Some(KIND.into())),
            ("metadata", Some(self.meta.content())),
            ("spec", Some(with_rest(spec, &self.spec_rest))),
        ]);
        with_rest(object, &self.rest)
    }
}

fn pod_content(pod: &PodAllocation) -> JsonValue {
    let containers = pod.containers.iter().map(|container| {
        let known = map([
            ("name", some_text(&container.name)),
            ("allocations", some_map(text_fields(&container.allocations))),
        ]);
        with_rest(known, &container.rest)
    });
    let containers: Vec<JsonValue> = containers.collect();
    let known = map([
        ("uid", some_text(&pod.uid)),
        ("name", some_text(&pod.name)),
        ("namespace", some_text(&pod.namespace)),
        (
            "containerAllocations",
            (!containers.is_empty()).then_some(JsonValue::List(containers)),
        ),
    ]);
    with_rest(known, &pod.rest)
}

fn text_fields(texts: &BTreeMap<String, String>) -> JsonFields {
    let texts = texts.iter();
    texts
        .map(|(key, text)| (key.clone(), JsonValue::text(text)))
        .collect()
}

fn some_map(fields: JsonFields) -> Option<JsonValue> {
    (!fields.is_empty()).then_some(JsonValue::Map(fields))
}

fn some_text(text: &str) -> Option<JsonValue> {
    (!text.is_empty()).then(|| JsonValue::text(text))
}

fn some_number(number: i64) -> Option<JsonValue> {
    (number != 0).then(|| number.into())
}
