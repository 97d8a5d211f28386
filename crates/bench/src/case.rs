//! [`BenchCase`]: one measured operation.

use crate::clock;
use crate::reference::Reference;

/// An operation, ready to be repeated.
pub(crate) type Work = Box<dyn FnMut()>;

/// A group of cases, shown as one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Section (a) of the kubelet's record: the merge.
    Merge,
    /// Section (b): hints of the static CPU policy.
    Hints,
    /// Section (c): picking CPUs.
    Picking,
    /// Section (d): whole admissions.
    Admission,
    /// The merge with the hints of all managers on realistic machines, and on random scenes.
    MergeInFull,
    /// How the cost grows with machine, resources and pods.
    Growth,
    /// One pod on one node under Koordinator.
    Koordinator,
    /// One pod on one node under Volcano.
    Volcano,
    /// One pod and thousands of nodes.
    Cluster,
    /// A request of kube-scheduler about thousands of nodes, JSON in and out.
    Engine,
    /// Snapshots, replicas and long simulations.
    Planning,
    /// Answers to the web page, JSON in and out.
    Page,
}

impl Group {
    /// Its name in `bench.json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Merge => "merge",
            Group::Hints => "hints",
            Group::Picking => "picking",
            Group::Admission => "admission",
            Group::MergeInFull => "merge-in-full",
            Group::Growth => "growth",
            Group::Koordinator => "koordinator",
            Group::Volcano => "volcano",
            Group::Cluster => "cluster",
            Group::Engine => "engine",
            Group::Planning => "planning",
            Group::Page => "page",
        }
    }
}

/// One measured operation.
pub(crate) struct BenchCase {
    /// Its group.
    pub(crate) group: Group,
    /// Its name, unique in its group.
    pub(crate) name: String,
    /// The cost of the original program.
    pub(crate) reference: Reference,
    /// The most CPU time that it may take.
    pub(crate) target_ns: Option<f64>,
    /// The number of variants, of which the slowest counts.
    variants: u64,
    prepare: Box<dyn Fn(u64) -> Work>,
}

impl BenchCase {
    /// A case of one operation.
    pub(crate) fn new<W: FnMut() + 'static>(
        group: Group,
        name: String,
        prepare: impl Fn() -> W + 'static,
    ) -> Self {
        Self::worst_of(1, group, name, move |_| prepare())
    }

    /// A case with several variants, of which the slowest counts.
    pub(crate) fn worst_of<W: FnMut() + 'static>(
        variants: u64,
        group: Group,
        name: String,
        prepare: impl Fn(u64) -> W + 'static,
    ) -> Self {
        Self {
            group,
            name,
            reference: Reference::None,
            target_ns: None,
            variants,
            prepare: Box::new(move |variant| Box::new(prepare(variant))),
        }
    }

    /// The same case with the cost of the original program.
    pub(crate) fn beside(self, reference: Reference) -> Self {
        Self { reference, ..self }
    }

    /// The same case with a limit in microseconds.
    pub(crate) fn within_us(self, limit: f64) -> Self {
        Self {
            target_ns: Some(limit * 1000.0),
            ..self
        }
    }

    /// The group and the name, as the command line selects it.
    pub(crate) fn full_name(&self) -> String {
        format!("{}: {}", self.group.name(), self.name)
    }

    /// Measures the case; returns nanoseconds of CPU time per operation.
    pub(crate) fn measure(&self) -> f64 {
        let works = (0..self.variants).map(&self.prepare);
        works.map(clock::cpu_ns_of).fold(0.0, f64::max)
    }

    /// Runs its first variant `count` times.
    pub(crate) fn run(&self, count: u64) {
        let mut work = (self.prepare)(0);
        (0..count).for_each(|_| work());
    }
}
