//! [`Case`]: one thing that is measured.

use crate::clock;
use crate::reference::Reference;

/// An operation, ready to be repeated.
pub(crate) type Work = Box<dyn FnMut()>;

/// What belongs together in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Section (a) of the kubelet's figures.
    Merge,
    /// Section (b).
    Hints,
    /// Section (c).
    Picking,
    /// Section (d).
    Admission,
    /// The same merge with real managers on real machines, and on made-up scenes.
    MergeInFull,
    /// How the cost grows.
    Growth,
    /// One pod on one node under Koordinator.
    Koordinator,
    /// One pod on one node under Volcano.
    Volcano,
    /// One pod and thousands of nodes.
    Cluster,
    /// A request of kube-scheduler about thousands of nodes, JSON in and out.
    Extender,
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
            Group::Extender => "extender",
        }
    }
}

/// One thing that is measured.
pub(crate) struct Case {
    /// Where it belongs.
    pub(crate) group: Group,
    /// What it is, unique in its group.
    pub(crate) name: String,
    /// What the original needed.
    pub(crate) reference: Reference,
    /// How long it may take.
    pub(crate) target_ns: Option<f64>,
    /// How many variants there are; the slowest counts.
    variants: u64,
    prepare: Box<dyn Fn(u64) -> Work>,
}

impl Case {
    /// A case of one operation.
    pub(crate) fn new<W: FnMut() + 'static>(
        group: Group,
        name: String,
        prepare: impl Fn() -> W + 'static,
    ) -> Self {
        Self::worst_of(1, group, name, move |_| prepare())
    }

    /// A case of so many variants, of which the slowest counts.
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

    /// The same with the original's figure.
    pub(crate) fn beside(self, reference: Reference) -> Self {
        Self { reference, ..self }
    }

    /// The same with a limit.
    pub(crate) fn within_us(self, limit: f64) -> Self {
        Self {
            target_ns: Some(limit * 1000.0),
            ..self
        }
    }

    /// The name by which it is asked for.
    pub(crate) fn full_name(&self) -> String {
        format!("{}: {}", self.group.name(), self.name)
    }

    /// Nanoseconds of CPU time.
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
