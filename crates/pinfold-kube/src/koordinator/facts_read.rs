//! Reading [`NodeFacts`] from annotations.

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amplify::Ratios;
use pinfold_core::koordinator::cpu_topology::ReportedCpu;

use super::facts::{
    CpuManager, NodeFacts, NodeWishes, PodCpus, PoolRow, Reservation, SystemCpus, keys,
};
use super::spellings;
use crate::annotation::Annotation;
use crate::finding::{Findings, Problem, Read, Report};
use crate::manifest::place::Place;
use crate::meta::{ObjectMeta, TextKind};
use crate::node::{NodeObject, amounts};
use crate::node_resource_topology::{KIND, NodeResourceTopology};

impl NodeFacts {
    /// Reads the annotations of a report. In exact mode one that cannot be read is passed over with a warning, as
    /// Koordinator does.
    ///
    /// # Errors
    /// With every annotation that cannot be read (sound mode).
    pub fn read(
        topology: &NodeResourceTopology,
        fidelity: Fidelity,
    ) -> Result<Read<Self>, Findings> {
        let meta = &topology.meta;
        let mut report = Report::about(&meta.origin.file, KIND, &meta.name);
        let facts = read(meta, fidelity, &mut report);
        report.finish(facts)
    }
}

impl NodeWishes {
    /// Reads the annotations of a node that its agent copies into its report. In exact mode one that cannot be read is
    /// passed over with a warning.
    ///
    /// # Errors
    /// With every annotation that cannot be read (sound mode).
    pub fn read(node: &NodeObject, fidelity: Fidelity) -> Result<Read<Self>, Findings> {
        let meta = &node.meta;
        let mut report = Report::about(&meta.origin.file, "Node", &meta.name);
        let mut reader = Reader {
            fidelity,
            report: &mut report,
        };
        let wishes = Self {
            reservation: reader.value(meta, keys::RESERVATION, reservation),
            system: reader.value(meta, keys::SYSTEM_QOS, |place, report| {
                Some(system(place, report))
            }),
            raw_allocatable: reader.value(meta, keys::RAW_ALLOCATABLE, |place, report| {
                let list = place.map("amounts by resource", report);
                list.map(|list| amounts(&list, report)).unwrap_or_default()
            }),
        };
        report.finish(wishes)
    }
}

fn read(meta: &ObjectMeta, fidelity: Fidelity, report: &mut Report) -> NodeFacts {
    let mut reader = Reader { fidelity, report };
    NodeFacts {
        cpus: reader.value(meta, keys::CPU_TOPOLOGY, cpu_topology),
        shared_pools: reader.value(meta, keys::SHARED_POOLS, pools),
        be_shared_pools: reader.value(meta, keys::BE_SHARED_POOLS, pools),
        pod_cpus: reader.value(meta, keys::POD_CPU_ALLOCS, |place, report| {
            pod_cpus(place, fidelity, report)
        }),
        cpu_manager: reader.value(meta, keys::CPU_MANAGER_POLICY, |place, report| {
            cpu_manager(place, fidelity, report)
        }),
        reservation: reader.value(meta, keys::RESERVATION, reservation),
        system: reader.value(meta, keys::SYSTEM_QOS, |place, report| {
            Some(system(place, report))
        }),
        ratios: reader.value(meta, keys::RATIOS, |place, report| {
            Some(ratios(place, report))
        }),
    }
}

/// Reads annotation after annotation, each by itself.
pub(super) struct Reader<'r> {
    pub(super) fidelity: Fidelity,
    pub(super) report: &'r mut Report,
}

impl Reader<'_> {
    /// What the annotation says; nothing if it is not there or cannot be read.
    pub(super) fn value<T: Default>(
        &mut self,
        meta: &ObjectMeta,
        today: &'static str,
        read: impl FnOnce(&Place<'_>, &mut Report) -> T,
    ) -> T {
        let key = spellings::find(
            meta,
            TextKind::Annotation,
            today,
            self.fidelity,
            self.report,
        );
        let Some(key) = key else {
            return T::default();
        };
        let mut own = self.report.fresh();
        let value = Annotation::read(meta, key, &mut own)
            .filter(|annotation| !annotation.place().is_null())
            .map(|annotation| read(&annotation.place(), &mut own));
        let usable = own.is_usable();
        if self.fidelity.ignores_unreadable_annotations() {
            own.forgive();
        }
        self.report.merge(own);
        value.filter(|_| usable).unwrap_or_default()
    }
}

fn integer(place: &Place<'_>, key: &str, report: &mut Report) -> i64 {
    let number = place.get_as_go(key);
    let number = number.and_then(|number| number.small_integer("a whole number", report));
    i64::from(number.unwrap_or(0))
}

fn text<'n>(place: &Place<'n>, key: &str, what: &str, report: &mut Report) -> &'n str {
    let text = place.get_as_go(key);
    text.and_then(|text| text.text(what, report))
        .unwrap_or_default()
}

/// The CPUs that the text under `key` lists.
pub(super) fn cpu_list(place: &Place<'_>, key: &str, report: &mut Report) -> CpuSet {
    let Some(place) = place.get_as_go(key) else {
        return CpuSet::new();
    };
    let Some(text) = place.text("a CPU list such as 0-3,8", report) else {
        return CpuSet::new();
    };
    CpuSet::parse(text).unwrap_or_else(|error| {
        let hint = Some(error.to_string());
        place.unexpected_with("a CPU list such as 0-3,8", hint, report);
        CpuSet::new()
    })
}

fn cpu_topology(place: &Place<'_>, report: &mut Report) -> Vec<ReportedCpu> {
    let what = "an object with the CPUs under \"detail\"";
    let Some(place) = place.map(what, report) else {
        return Vec::new();
    };
    let detail = place.get_as_go("detail");
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

fn pools(place: &Place<'_>, report: &mut Report) -> Vec<PoolRow> {
    let mut pools = Vec::new();
    for row in place.items("a list of pools", report) {
        if let Some(row) = row.map("a pool with socket, node and cpuset", report) {
            pools.push(pool(&row, report));
        }
    }
    pools
}

pub(super) fn pool(row: &Place<'_>, report: &mut Report) -> PoolRow {
    PoolRow {
        socket: integer(row, "socket", report),
        node: integer(row, "node", report),
        cpus: cpu_list(row, "cpuset", report),
    }
}

fn pod_cpus(place: &Place<'_>, fidelity: Fidelity, report: &mut Report) -> Vec<PodCpus> {
    let mut pods = Vec::new();
    for row in place.items("a list of pods", report) {
        let Some(row) = row.map("a pod with its cpuset", report) else {
            continue;
        };
        let mut cpus = cpu_list(&row, "cpuset", report);
        if !fidelity.reads_one_spelling()
            && let Some(old) = row.get_as_go("cpu")
        {
            let old_cpus = cpu_list(&row, "cpu", report);
            if row.get_as_go("cpuset").is_some() {
                let problem = Problem::NoEffect("\"cpu\" beside \"cpuset\"".to_owned());
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
        pods.push(PodCpus {
            namespace: text(&row, "namespace", "a namespace", report).to_owned(),
            name: text(&row, "name", "a name", report).to_owned(),
            uid: text(&row, "uid", "an id", report).to_owned(),
            cpus,
            managed_by_kubelet,
        });
    }
    pods
}

pub(super) fn warn_old(place: &Place<'_>, found: &str, read_as: &str, report: &mut Report) {
    let problem = Problem::OldSpelling {
        found: found.to_owned(),
        read_as: read_as.to_owned(),
    };
    place.warn(problem, Some(format!("write {read_as}")), report);
}

/// The kubelet's options that count here.
const OPTIONS: [&str; 2] = ["full-pcpus-only", "distribute-cpus-across-numa"];

fn cpu_manager(place: &Place<'_>, fidelity: Fidelity, report: &mut Report) -> CpuManager {
    let Some(place) = place.map("an object with a policy", report) else {
        return CpuManager::default();
    };
    let mut manager = CpuManager {
        policy: text(&place, "policy", "none or static", report).to_owned(),
        reserved: cpu_list(&place, "reservedCPUs", report),
        ..CpuManager::default()
    };
    let options = place.get_as_go("options");
    let options = options.and_then(|options| options.map("options by name", report));
    let mut old = Vec::new();
    for (name, place) in options.iter().flat_map(Place::members) {
        let Some(value) = place.text("text such as \"true\"", report) else {
            continue;
        };
        let today = OPTIONS
            .iter()
            .find(|today| today.eq_ignore_ascii_case(name));
        match today {
            Some(today) if *today != name && !fidelity.reads_one_spelling() => {
                old.push((*today, name, value, place));
            }
            _ => _ = manager.options.insert(name.to_owned(), value.to_owned()),
        }
    }
    for (today, name, value, place) in old {
        if manager.options.contains_key(today) {
            let problem = Problem::NoEffect(format!("{name:?} beside {today:?}"));
            place.warn(problem, Some(format!("remove {name:?}")), report);
        } else {
            warn_old(&place, &format!("{name:?}"), &format!("{today:?}"), report);
            manager.options.insert(today.to_owned(), value.to_owned());
        }
    }
    manager
}

fn reservation(place: &Place<'_>, report: &mut Report) -> Reservation {
    let Some(place) = place.map("an object with resources or reservedCPUs", report) else {
        return Reservation::default();
    };
    let resources = place.get_as_go("resources");
    let resources = resources.and_then(|list| list.map("amounts by resource", report));
    let what = "Default or ReservedCPUsOnly";
    Reservation {
        resources: resources
            .map(|list| amounts(&list, report))
            .unwrap_or_default(),
        cpus: cpu_list(&place, "reservedCPUs", report),
        apply_policy: text(&place, "applyPolicy", what, report).to_owned(),
    }
}

fn system(place: &Place<'_>, report: &mut Report) -> SystemCpus {
    let exclusive = place.get_as_go("cpusetExclusive");
    let exclusive = exclusive.and_then(|place| place.boolean("true or false", report));
    let place = place.map("an object with a cpuset", report);
    SystemCpus {
        cpus: place
            .map(|place| cpu_list(&place, "cpuset", report))
            .unwrap_or_default(),
        exclusive: exclusive.unwrap_or(true),
    }
}

pub(super) fn ratios(place: &Place<'_>, report: &mut Report) -> Ratios {
    let mut ratios = Ratios::default();
    let place = place.map("ratios by resource", report);
    for (name, place) in place.iter().flat_map(Place::members) {
        let ratio = place.float("a ratio such as 1.5", report);
        ratios.0.extend(ratio.map(|ratio| (name.into(), ratio)));
    }
    ratios
}
