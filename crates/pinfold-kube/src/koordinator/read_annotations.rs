//! Parses [`ReportAnnotations`] and [`NodeAnnotations`].

use pinfold_cluster::koordinator::KoordinatorDefects;
use pinfold_cluster::koordinator::amplify::Ratios;
use pinfold_cluster::koordinator::cpu_topology::ReportedCpu;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;

use super::annotations::{
    CpuManagerInfo, NodeAnnotations, NodeReservation, PodCpuAllocation, ReportAnnotations,
    SharedPoolRow, SystemQosCpus, keys,
};
use super::key_aliases;
use crate::annotation::Annotation;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::manifest::field::FieldRef;
use crate::meta::{ObjectMeta, TextKind};
use crate::node::{NodeObject, amounts};
use crate::node_resource_topology::{KIND, NodeResourceTopology};

impl ReportAnnotations {
    /// Parses the annotations of a report. In exact mode an invalid annotation is ignored with a warning, as
    /// Koordinator does.
    ///
    /// # Errors
    /// With every annotation that cannot be parsed (sound mode).
    pub fn read(
        topology: &NodeResourceTopology,
        fidelity: Fidelity,
    ) -> Result<WithWarnings<Self>, Diagnostics> {
        let meta = &topology.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, KIND, &meta.name);
        let facts = read(meta, fidelity, &mut report);
        report.finish(facts)
    }
}

impl NodeAnnotations {
    /// Parses the annotations of a Node object. In exact mode an invalid annotation is ignored with a warning.
    ///
    /// # Errors
    /// With every annotation that cannot be parsed (sound mode).
    pub fn read(node: &NodeObject, fidelity: Fidelity) -> Result<WithWarnings<Self>, Diagnostics> {
        let meta = &node.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, "Node", &meta.name);
        let mut reader = AnnotationReader {
            fidelity,
            report: &mut report,
        };
        let wishes = Self {
            reservation: reader.value(meta, keys::RESERVATION, reservation),
            system: reader.value(meta, keys::SYSTEM_QOS, |field, report| {
                Some(system(field, report))
            }),
            raw_allocatable: reader.value(meta, keys::RAW_ALLOCATABLE, |field, report| {
                let list = field.map("amounts by resource", report);
                list.map(|list| amounts(&list, report)).unwrap_or_default()
            }),
        };
        report.finish(wishes)
    }
}

fn read(meta: &ObjectMeta, fidelity: Fidelity, report: &mut DiagnosticReport) -> ReportAnnotations {
    let mut reader = AnnotationReader { fidelity, report };
    ReportAnnotations {
        cpus: reader.value(meta, keys::CPU_TOPOLOGY, cpu_topology),
        shared_pools: reader.value(meta, keys::SHARED_POOLS, pools),
        be_shared_pools: reader.value(meta, keys::BE_SHARED_POOLS, pools),
        pod_cpus: reader.value(meta, keys::POD_CPU_ALLOCS, |field, report| {
            pod_cpus(field, fidelity, report)
        }),
        cpu_manager: reader.value(meta, keys::CPU_MANAGER_POLICY, |field, report| {
            cpu_manager(field, fidelity, report)
        }),
        reservation: reader.value(meta, keys::RESERVATION, reservation),
        system: reader.value(meta, keys::SYSTEM_QOS, |field, report| {
            Some(system(field, report))
        }),
        ratios: reader.value(meta, keys::RATIOS, |field, report| {
            Some(ratios(field, report))
        }),
    }
}

/// Parses annotations one by one, so that an error in one does not affect the others.
pub(super) struct AnnotationReader<'r> {
    pub(super) fidelity: Fidelity,
    pub(super) report: &'r mut DiagnosticReport,
}

impl AnnotationReader<'_> {
    /// The parsed annotation; the default if it does not exist or is invalid.
    pub(super) fn value<T: Default>(
        &mut self,
        meta: &ObjectMeta,
        today: &'static str,
        read: impl FnOnce(&FieldRef<'_>, &mut DiagnosticReport) -> T,
    ) -> T {
        let key = key_aliases::find(
            meta,
            TextKind::Annotation,
            today,
            self.fidelity,
            self.report,
        );
        let Some(key) = key else {
            return T::default();
        };
        let mut own = self.report.empty_copy();
        let value = Annotation::read(meta, key, &mut own)
            .filter(|annotation| !annotation.root().is_null())
            .map(|annotation| read(&annotation.root(), &mut own));
        let usable = own.is_usable();
        if self.fidelity.ignores_unreadable_annotations() {
            own.downgrade_errors();
        }
        self.report.merge(own);
        value.filter(|_| usable).unwrap_or_default()
    }
}

fn integer(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> i64 {
    let number = field.get_as_go(key);
    let number = number.and_then(|number| number.small_integer("a whole number", report));
    i64::from(number.unwrap_or(0))
}

fn text<'n>(field: &FieldRef<'n>, key: &str, what: &str, report: &mut DiagnosticReport) -> &'n str {
    let text = field.get_as_go(key);
    text.and_then(|text| text.text(what, report))
        .unwrap_or_default()
}

/// Parses the CPU list under `key`.
pub(super) fn cpu_list(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> CpuSet {
    let Some(field) = field.get_as_go(key) else {
        return CpuSet::new();
    };
    let Some(text) = field.text("a CPU list such as 0-3,8", report) else {
        return CpuSet::new();
    };
    CpuSet::parse(text).unwrap_or_else(|error| {
        let hint = Some(error.to_string());
        field.unexpected_with("a CPU list such as 0-3,8", hint, report);
        CpuSet::new()
    })
}

fn cpu_topology(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Vec<ReportedCpu> {
    let what = "an object with the CPUs under \"detail\"";
    let Some(field) = field.map(what, report) else {
        return Vec::new();
    };
    let detail = field.get_as_go("detail");
    let rows = detail.map(|detail| detail.items("a list of CPUs", report));
    let mut cpus = Vec::new();
    for row in rows.unwrap_or_default() {
        let Some(row) = row.map("a CPU with id, core, socket and node", report) else {
            continue;
        };
        let id = integer(&row, "id", report);
        let Some(cpu) = u32::try_from(id).ok().and_then(CpuId::new) else {
            let id = row.get_as_go("id").unwrap_or(row);
            id.unexpected("the id of a CPU, 0 to 4095", report);
            continue;
        };
        cpus.push(ReportedCpu {
            cpu,
            core: integer(&row, "core", report),
            node: integer(&row, "node", report),
            socket: integer(&row, "socket", report),
        });
    }
    cpus
}

fn pools(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Vec<SharedPoolRow> {
    let mut pools = Vec::new();
    for row in field.items("a list of pools", report) {
        if let Some(row) = row.map("a pool with socket, node and cpuset", report) {
            pools.push(pool(&row, report));
        }
    }
    pools
}

pub(super) fn pool(row: &FieldRef<'_>, report: &mut DiagnosticReport) -> SharedPoolRow {
    SharedPoolRow {
        socket: integer(row, "socket", report),
        node: integer(row, "node", report),
        cpus: cpu_list(row, "cpuset", report),
    }
}

fn pod_cpus(
    field: &FieldRef<'_>,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> Vec<PodCpuAllocation> {
    let mut pods = Vec::new();
    for row in field.items("a list of pods", report) {
        let Some(row) = row.map("a pod with its cpuset", report) else {
            continue;
        };
        let mut cpus = cpu_list(&row, "cpuset", report);
        if !fidelity.reads_one_spelling()
            && let Some(old) = row.get_as_go("cpu")
        {
            let old_cpus = cpu_list(&row, "cpu", report);
            if row.get_as_go("cpuset").is_some() {
                let problem = DiagnosticKind::NoEffect("\"cpu\" beside \"cpuset\"".to_owned());
                old.warn(problem, Some("remove \"cpu\"".to_owned()), report);
            } else {
                warn_old(&old, "the key \"cpu\"", "\"cpuset\"", report);
                cpus = old_cpus;
            }
        }
        let managed = row.get_as_go("managedByKubelet");
        let managed_by_kubelet = managed.is_some_and(|managed| {
            for (word, value) in [("true", true), ("false", false)] {
                if !fidelity.reads_one_spelling() && managed.is_text(word) {
                    warn_old(&managed, &format!("the text {word:?}"), word, report);
                    return value;
                }
            }
            managed.boolean("true or false", report).unwrap_or(false)
        });
        pods.push(PodCpuAllocation {
            namespace: text(&row, "namespace", "a namespace", report).to_owned(),
            name: text(&row, "name", "a name", report).to_owned(),
            uid: text(&row, "uid", "an id", report).to_owned(),
            cpus,
            managed_by_kubelet,
        });
    }
    pods
}

pub(super) fn warn_old(
    field: &FieldRef<'_>,
    found: &str,
    read_as: &str,
    report: &mut DiagnosticReport,
) {
    let problem = DiagnosticKind::OldSpelling {
        found: found.to_owned(),
        read_as: read_as.to_owned(),
    };
    field.warn(problem, Some(format!("write {read_as}")), report);
}

/// The kubelet's CPU manager options that are read.
const OPTIONS: [&str; 2] = ["full-pcpus-only", "distribute-cpus-across-numa"];

fn cpu_manager(
    field: &FieldRef<'_>,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> CpuManagerInfo {
    let Some(field) = field.map("an object with a policy", report) else {
        return CpuManagerInfo::default();
    };
    let mut manager = CpuManagerInfo {
        policy: text(&field, "policy", "none or static", report).to_owned(),
        reserved: cpu_list(&field, "reservedCPUs", report),
        ..CpuManagerInfo::default()
    };
    let options = field.get_as_go("options");
    let options = options.and_then(|options| options.map("options by name", report));
    let mut old = Vec::new();
    for (name, field) in options.iter().flat_map(FieldRef::members) {
        let Some(value) = field.text("text such as \"true\"", report) else {
            continue;
        };
        let today = OPTIONS
            .iter()
            .find(|today| today.eq_ignore_ascii_case(name));
        match today {
            Some(today) if *today != name && !fidelity.reads_one_spelling() => {
                old.push((*today, name, value, field));
            }
            _ => _ = manager.options.insert(name.to_owned(), value.to_owned()),
        }
    }
    for (today, name, value, field) in old {
        if manager.options.contains_key(today) {
            let problem = DiagnosticKind::NoEffect(format!("{name:?} beside {today:?}"));
            field.warn(problem, Some(format!("remove {name:?}")), report);
        } else {
            warn_old(&field, &format!("{name:?}"), &format!("{today:?}"), report);
            manager.options.insert(today.to_owned(), value.to_owned());
        }
    }
    manager
}

fn reservation(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> NodeReservation {
    let Some(field) = field.map("an object with resources or reservedCPUs", report) else {
        return NodeReservation::default();
    };
    let resources = field.get_as_go("resources");
    let resources = resources.and_then(|list| list.map("amounts by resource", report));
    let what = "Default or ReservedCPUsOnly";
    NodeReservation {
        resources: resources
            .map(|list| amounts(&list, report))
            .unwrap_or_default(),
        cpus: cpu_list(&field, "reservedCPUs", report),
        apply_policy: text(&field, "applyPolicy", what, report).to_owned(),
    }
}

fn system(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> SystemQosCpus {
    let exclusive = field.get_as_go("cpusetExclusive");
    let exclusive = exclusive.and_then(|field| field.boolean("true or false", report));
    let field = field.map("an object with a cpuset", report);
    SystemQosCpus {
        cpus: field
            .map(|field| cpu_list(&field, "cpuset", report))
            .unwrap_or_default(),
        exclusive: exclusive.unwrap_or(true),
    }
}

pub(super) fn ratios(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Ratios {
    let mut ratios = Ratios::default();
    let field = field.map("ratios by resource", report);
    for (name, field) in field.iter().flat_map(FieldRef::members) {
        let ratio = field.float("a ratio such as 1.5", report);
        ratios.0.extend(ratio.map(|ratio| (name.into(), ratio)));
    }
    ratios
}
