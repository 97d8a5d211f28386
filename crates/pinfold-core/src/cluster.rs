//! [`Cluster`]: many nodes, each deciding by its own dialect, and the pods that are placed on them.
//!
//! ```text
//! insert(node, Member) ─┐
//!                       ├─► ask / ask_all ─► rank ─► place, place_on, place_all ─► Placement
//! PodAsk ───────────────┘   fits or why not   best     takes what was decided
//!                                             first    remove(pod) gives it back
//! ```
//!
//! Deterministic: nodes are asked in ascending order of their names, and of equally good nodes the first by name is
//! taken. Every member checks the sums first ([`Shortage`]) and then asks its dialect:
//!
//! | dialect | fits | score |
//! |---|---|---|
//! | kubelet | a trial admission that is taken back | the fewer NUMA nodes, the better: 100 for one |
//! | Koordinator | the plugin's filter | the plugin's score, 0 to 100 |
//! | Volcano | the plugin's predicate | 100 less the span's share of the widest candidate's, times the weight |
//! | unknown | the sums | 0 |
//!
//! Scores of different dialects all lie between 0 and 100 (with Volcano's weight at 1) but mean different things.
//!
//! A node's generation changes with every change to it, and no generation ever stands for two states. Answers about a pod
//! are remembered by its shape (all but name and uid); the next pod of that shape asks only the nodes that changed
//! since. [`MOST_SHAPES`] shapes are kept.
//!
//! ```
//! use std::sync::Arc;
//! use pinfold_core::cluster::{Cluster, Member, PodAsk};
//! use pinfold_core::koordinator::amounts::Amounts;
//! use pinfold_core::pod::{Container, Pod};
//!
//! let mut cluster = Cluster::new();
//! for (name, milli) in [("a", 2000), ("b", 8000)] {
//!     let allocatable = Amounts::from([("cpu", milli), ("pods", 110)]);
//!     cluster.insert(name.into(), Member::unknown(allocatable));
//! }
//! let main = Container {
//!     name: "main".into(),
//!     restartable: false,
//!     requests: [("cpu".into(), "4".parse()?)].into(),
//!     limits: Default::default(),
//! };
//! let pod = Pod {
//!     uid: "web-1".into(),
//!     name: "shop/web-1".into(),
//!     init_containers: Vec::new(),
//!     containers: vec![main],
//!     pod_requests: None,
//!     pod_limits: None,
//! };
//! let ask = PodAsk::new(Arc::new(pod));
//! let rejection = cluster.ask(&ask, &"a".into()).rejection().cloned().expect("too small");
//! assert_eq!(rejection.to_string(), "Insufficient cpu (4 asked, 2 left)");
//! let placement = cluster.place(&ask)?;
//! assert_eq!(placement.node.as_str(), "b");
//! assert!(cluster.remove(&placement.pod).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::demand::effective_requests;
use crate::koordinator::amounts::Amounts;
use crate::name::{NodeName, PodUid};
use crate::volcano::score::scores;

mod ask;
mod blame;
mod fit;
mod hands;
mod kinds;
mod member;
mod names;
mod place;
mod portrait;
mod states;
mod verdict;
mod warm;

use kinds::Kinds;
use member::Held;
use names::Names;
use states::States;
use warm::{Known, Memory, NEVER};

pub use ask::PodAsk;
pub use blame::Blame;
pub use fit::{PODS, Shortage};
pub use member::{Dialect, Member, VolcanoNode};
pub use portrait::Portrait;
pub use verdict::{
    Answer, Decided, Fit, Gauge, NotPlaced, Opinion, Placement, Ranked, Rejection, Verdict,
};
pub use warm::MOST_SHAPES;

/// Many nodes and the pods on them.
#[derive(Clone, Debug)]
pub struct Cluster {
    names: Names,
    /// Nothing sits where a node was removed.
    seats: Vec<Option<Seat>>,
    /// The pods that can be removed.
    pods: BTreeMap<PodUid, Tenant>,
    /// The last generation given out.
    clock: u64,
    volcano_weight: i64,
    kinds: Kinds,
    memory: Memory,
}

#[derive(Clone, Debug, PartialEq)]
struct Seat {
    member: Member,
    generation: u64,
    /// The pods on it that can be removed.
    tenants: BTreeSet<PodUid>,
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq)]
struct Tenant {
    node: NodeName,
    held: Held,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// No node yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            names: Names::default(),
            seats: Vec::new(),
            pods: BTreeMap::new(),
            clock: NEVER,
            volcano_weight: 1,
            kinds: Kinds::default(),
            memory: Memory::default(),
        }
    }

    /// The same with the weight of Volcano's plugin, which is 1 unless configured.
    #[must_use]
    pub fn with_volcano_weight(self, weight: i64) -> Self {
        Self {
            volcano_weight: weight,
            ..self
        }
    }

    /// Adds a node, with the pods its kubelet has, or puts another in its place; returns the one before. Pods that were
    /// placed on that one are forgotten: a member comes with everything that is on it.
    pub fn insert(&mut self, name: NodeName, mut member: Member) -> Option<Member> {
        let known = self.names.seat(name.as_str());
        let before = known.and_then(|at| self.clear(at));
        self.kinds.share(&mut member);
        let mut tenants = BTreeSet::new();
        if let Dialect::Kubelet(ledger) = member.dialect() {
            for (uid, resident) in ledger.state().admitted_pods() {
                // One that is elsewhere as well is known by the place that was heard of first.
                if let Entry::Vacant(new) = self.pods.entry(uid.clone()) {
                    let requests = Amounts::of(&effective_requests(&resident.pod));
                    new.insert(Tenant {
                        node: name.clone(),
                        held: Held {
                            requests,
                            ..Held::default()
                        },
                    });
                    tenants.insert(uid.clone());
                }
            }
        }
        let seat = Some(Seat {
            member,
            generation: self.tick(),
            tenants,
        });
        let at = known.unwrap_or_else(|| self.vacant());
        match self.seats.get_mut(at) {
            Some(vacant) => *vacant = seat,
            None => self.seats.push(seat),
        }
        self.names.insert(name, at);
        before
    }

    /// Takes a node out, with everything on it.
    pub fn remove_node(&mut self, name: &NodeName) -> Option<Member> {
        let at = self.names.remove(name)?;
        self.clear(at)
    }

    /// Takes out who sits somewhere, with everything on it.
    fn clear(&mut self, at: usize) -> Option<Member> {
        let seat = self.seats.get_mut(at).and_then(Option::take)?;
        for pod in &seat.tenants {
            self.pods.remove(pod);
        }
        Some(seat.member)
    }

    /// Where another node can sit.
    fn vacant(&self) -> usize {
        let is_full = self.names.len() == self.seats.len();
        let vacant = (!is_full).then(|| self.seats.iter().position(Option::is_none));
        vacant.flatten().unwrap_or(self.seats.len())
    }

    /// The nodes, ascending by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        let seat = |at: usize| self.seats.get(at)?.as_ref();
        self.names
            .iter()
            .filter_map(move |(name, at)| Some((name, &seat(at)?.member)))
    }

    /// One node.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Member> {
        self.seat(name).map(|seat| &seat.member)
    }

    /// The number of the state a node is in.
    #[must_use]
    pub fn generation(&self, name: &NodeName) -> Option<u64> {
        self.seat(name).map(|seat| seat.generation)
    }

    /// Where a pod is.
    #[must_use]
    pub fn whereabouts(&self, pod: &PodUid) -> Option<&NodeName> {
        self.pods.get(pod).map(|tenant| &tenant.node)
    }

    /// What one node says about a pod. Nothing that can be seen changes.
    #[must_use]
    pub fn ask(&mut self, ask: &PodAsk, node: &NodeName) -> Verdict {
        let Some(at) = self.names.seat(node.as_str()) else {
            return Verdict::Rejected(Rejection::UnknownNode);
        };
        self.refresh(ask, std::iter::once(at));
        self.verdict(at).clone()
    }

    /// What every node says about a pod, ascending by name. Nothing that can be seen changes.
    pub fn ask_all(&mut self, ask: &PodAsk) -> Vec<Answer<'_>> {
        self.refresh(ask, 0..self.seats.len());
        let answer = |(node, at)| Answer {
            node,
            verdict: self.verdict(at),
        };
        self.names.iter().map(answer).collect()
    }

    /// What some nodes say about a pod, in the order in which they are named; `None` for a node that is not here. Nothing
    /// that can be seen changes.
    pub fn ask_some<'n>(
        &mut self,
        ask: &PodAsk,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Vec<Option<Opinion<'_>>> {
        let names = names.into_iter().map(|name| self.names.seat(name));
        let asked: Vec<Option<usize>> = names.collect();
        self.refresh(ask, asked.iter().copied().flatten());
        let latest = self.memory.latest();
        let opinion = |at: Option<usize>| {
            let (seat, known) = (self.seats.get(at?)?.as_ref()?, latest.get(at?)?);
            Some(Opinion {
                member: &seat.member,
                verdict: &known.verdict,
                note: &known.note,
            })
        };
        asked.into_iter().map(opinion).collect()
    }

    /// Forgets what nodes said, and the notes about it.
    pub fn forget_answers(&mut self) {
        self.memory = Memory::default();
    }

    /// The nodes that could take a pod, best first.
    pub fn rank(&mut self, ask: &PodAsk) -> Vec<Ranked<'_>> {
        self.refresh(ask, 0..self.seats.len());
        let ranked = self.ranked();
        ranked
            .into_iter()
            .map(|(node, _, score)| Ranked { node, score })
            .collect()
    }

    /// Brings the answers of some seats about a pod up to date; they are the latest in memory then. Many that have to be
    /// asked anew are asked by several threads.
    fn refresh(&mut self, ask: &PodAsk, seats: impl Iterator<Item = usize>) {
        /// So many nodes are worth a thread.
        const MANY: usize = 256;
        let question = Question {
            ask,
            is_here: self.pods.contains_key(ask.uid()),
        };
        let known = self.memory.about(ask, self.seats.len());
        let is_stale = |at: &usize| match (self.seats.get(*at), known.get(*at)) {
            (Some(Some(seat)), Some(known)) => seat.is_stale(question, known),
            _ => false,
        };
        let stale: Vec<usize> = seats.filter(is_stale).collect();
        if stale.len() < 2 * MANY {
            let mut states = States::of(ask);
            for at in stale {
                if let (Some(Some(seat)), Some(known)) = (self.seats.get_mut(at), known.get_mut(at))
                {
                    seat.answer(question, &mut states, known);
                }
            }
            return;
        }
        let mut wanted = vec![false; self.seats.len()];
        for at in stale {
            wanted[at] = true;
        }
        let pieces = self.seats.chunks_mut(MANY).zip(known.chunks_mut(MANY));
        let pieces = pieces.zip(wanted.chunks(MANY)).collect();
        hands::share(
            pieces,
            || States::of(ask),
            |states, ((seats, known), wanted)| {
                for ((seat, known), wanted) in seats.iter_mut().zip(known).zip(wanted) {
                    if let (Some(seat), true) = (seat, wanted) {
                        seat.answer(question, states, known);
                    }
                }
            },
        );
    }

    /// The candidates of the latest answers with seat and score, best first.
    fn ranked(&self) -> Vec<(&NodeName, usize, i64)> {
        let mut ranked = Vec::with_capacity(self.names.len());
        let (mut spans, mut spanning) = (Vec::new(), Vec::new());
        for (name, at) in self.names.iter() {
            let score = match self.verdict(at) {
                Verdict::Rejected(_) => continue,
                Verdict::NoOpinion => 0,
                Verdict::Fits(fit) => match fit.gauge {
                    Gauge::Score(score) => score,
                    Gauge::Span(span) => {
                        spans.push(span);
                        spanning.push(ranked.len());
                        0
                    }
                },
            };
            ranked.push((name, at, score));
        }
        let scores = scores(&spans, self.volcano_weight);
        for (place, score) in spanning.into_iter().zip(scores) {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number; saturates")]
            let whole = score as i64;
            ranked[place].2 = whole;
        }
        // Stable: equally good nodes stay in the order of their names.
        ranked.sort_by_key(|&(_, _, score)| Reverse(score));
        ranked
    }

    /// The latest answer from one seat.
    fn verdict(&self, at: usize) -> &Verdict {
        const NOBODY: &Verdict = &Verdict::Rejected(Rejection::UnknownNode);
        let known = self.memory.latest().get(at);
        known.map_or(NOBODY, |known| &known.verdict)
    }

    fn seat(&self, name: &NodeName) -> Option<&Seat> {
        self.seats.get(self.names.seat(name.as_str())?)?.as_ref()
    }

    fn seat_mut(&mut self, name: &NodeName) -> Option<&mut Seat> {
        self.seats
            .get_mut(self.names.seat(name.as_str())?)?
            .as_mut()
    }

    /// A generation that no node ever had.
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// A question to many nodes.
#[derive(Clone, Copy)]
struct Question<'a> {
    ask: &'a PodAsk,
    /// Whether the pod is on any node.
    is_here: bool,
}

impl Seat {
    /// Whether the member has to be asked again.
    fn is_stale(&self, question: Question<'_>, known: &Known) -> bool {
        known.generation != self.generation || self.minds_uid(question)
    }

    /// Whether what the member says about the pod is for no other pod.
    fn minds_uid(&self, Question { ask, is_here }: Question<'_>) -> bool {
        self.member.minds_uid(ask.uid(), is_here)
    }

    /// Makes `known` what the member says about a pod.
    fn answer(&mut self, question: Question<'_>, states: &mut States<'_>, known: &mut Known) {
        let verdict = self.member.decide(question.ask, states);
        let names_pod = matches!(verdict, Verdict::Rejected(Rejection::Ledger(_)));
        *known = Known {
            generation: match names_pod || self.minds_uid(question) {
                true => NEVER,
                false => self.generation,
            },
            verdict,
            note: Cell::default(),
        };
    }
}

/// Clusters with the same nodes in the same states and generations and the same pods on them; what is remembered
/// to answer faster does not count.
impl PartialEq for Cluster {
    fn eq(&self, other: &Self) -> bool {
        let same_seats = || {
            let seats = |cluster: &'_ Self| -> Vec<Option<Seat>> {
                cluster
                    .names
                    .iter()
                    .map(|(name, _)| cluster.seat(name).cloned())
                    .collect()
            };
            seats(self) == seats(other)
        };
        let names = |cluster: &'_ Self| -> Vec<NodeName> {
            let names = cluster.names.iter();
            names.map(|(name, _)| name.clone()).collect()
        };
        self.volcano_weight == other.volcano_weight
            && self.pods == other.pods
            && names(self) == names(other)
            && same_seats()
    }
}

#[cfg(test)]
mod tests;
