//! [`VolcanoSession`]: one scheduling session, which places many tasks on many nodes without conflicts.
//!
//! Mirrors `OnSessionOpen`, the allocate and deallocate events and `OnSessionClose` of the plugin.

use crate::volcano::VolcanoDefects;
use std::collections::BTreeMap;

use super::numa_amounts::{NumaAmounts, TakenAmounts};
use super::predicate::{
    FitError, Misfit, NumaInfo, SessionNode, TaskAllocation, VolcanoTask, simulate,
};
use super::score::{scores, span};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{NodeName, PodUid};

/// The state of one scheduling session.
#[derive(Clone, Debug, PartialEq)]
pub struct VolcanoSession {
    nodes: BTreeMap<NodeName, SessionNodeState>,
    /// The allocation of each task on each node for which the predicate ran.
    decisions: BTreeMap<PodUid, BTreeMap<NodeName, TaskAllocation>>,
    bound: BTreeMap<PodUid, TaskBinding>,
    weight: i64,
    fidelity: Fidelity,
}

/// One node, with what is still free in this session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionNodeState {
    numa: Option<NumaInfo>,
    free: Option<CpuSet>,
    reserved: CpuSet,
    amounts: NumaAmounts,
}

/// A task that is bound to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBinding {
    /// `namespace/name` of the task.
    pub task: String,
    /// Its node.
    pub node: NodeName,
    /// Its CPUs there.
    pub cpus: CpuSet,
    /// Its memory and devices there, as far as they are counted per NUMA node.
    pub amounts: TakenAmounts,
}

/// Why a decision could not be bound. The session is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindConflict {
    /// Another task has got some of its CPUs since the predicate ran.
    #[error("CPUs {taken} of node {node} are no longer free; run the predicate again")]
    Conflict {
        /// The node.
        node: NodeName,
        /// The CPUs that are no longer free.
        taken: CpuSet,
    },
    /// Another task has got some of its memory or devices since the predicate ran.
    #[error("memory or devices of node {node} are no longer free; run the predicate again")]
    Shortage {
        /// The node.
        node: NodeName,
    },
    /// The task is bound already.
    #[error("the task is bound to node {node} already")]
    Already {
        /// The node it is bound to.
        node: NodeName,
    },
}

/// Why a task was not placed. The session is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskNotPlaced {
    /// The task fits no node.
    #[error("task {task} fits none of {} nodes", rejections.len())]
    NoNode {
        /// `namespace/name` of the task.
        task: String,
        /// Why the task does not fit each node.
        rejections: Vec<FitError>,
    },
    /// The task could not be bound to its best node.
    #[error("task {task}: {reason}")]
    BindConflict {
        /// `namespace/name` of the task.
        task: String,
        /// Why.
        #[source]
        reason: BindConflict,
    },
}

/// A task that was placed, with the state that undoes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlacement {
    /// The task.
    pub task: PodUid,
    /// Its node.
    pub node: NodeName,
    /// The decisions about the task before it was placed.
    decided_before: Option<BTreeMap<NodeName, TaskAllocation>>,
}

impl VolcanoSession {
    /// Opens a session with these nodes. `weight` is the weight of the plugin, 1 by default.
    #[must_use]
    pub fn open(
        nodes: impl IntoIterator<Item = SessionNode>,
        weight: i64,
        fidelity: Fidelity,
    ) -> Self {
        let state = |node: SessionNode| {
            let numa = node.numa;
            let reserved = numa.as_ref().map(|numa| numa.reserved_cpus(fidelity));
            let state = SessionNodeState {
                free: numa.as_ref().and_then(|numa| numa.free.clone()),
                reserved: reserved.unwrap_or_default(),
                amounts: NumaAmounts::default(),
                numa,
            };
            (node.name, state)
        };
        Self {
            nodes: nodes.into_iter().map(state).collect(),
            decisions: BTreeMap::new(),
            bound: BTreeMap::new(),
            weight,
            fidelity,
        }
    }

    /// Sets the memory and devices of a node per NUMA node, which are then aligned with its CPUs. Does nothing if the
    /// session does not have the node.
    pub fn set_amounts(&mut self, node: &NodeName, amounts: NumaAmounts) {
        if let Some(state) = self.nodes.get_mut(node) {
            state.amounts = amounts;
        }
    }

    /// The free memory and devices of a node per NUMA node.
    #[must_use]
    pub fn amounts(&self, node: &NodeName) -> Option<&NumaAmounts> {
        self.nodes.get(node).map(|state| &state.amounts)
    }

    /// The free CPUs of a node; `None` if the session does not have the node or it reports no CPUs.
    #[must_use]
    pub fn free(&self, node: &NodeName) -> Option<&CpuSet> {
        self.nodes.get(node)?.free.as_ref()
    }

    /// The CPUs that the predicate chose for a task on a node.
    #[must_use]
    pub fn decision(&self, task: &PodUid, node: &NodeName) -> Option<&CpuSet> {
        self.allocation(task, node)
            .map(|allocation| &allocation.cpus)
    }

    /// The allocation that the predicate chose for a task on a node.
    #[must_use]
    pub fn allocation(&self, task: &PodUid, node: &NodeName) -> Option<&TaskAllocation> {
        self.decisions.get(task)?.get(node)
    }

    /// The CPUs of `task` on `node`, without storing the decision. `None` means that the task fits and no CPUs have to
    /// be chosen.
    ///
    /// # Errors
    /// If the task does not fit.
    pub fn simulate(
        &self,
        task: &VolcanoTask,
        node: &NodeName,
    ) -> Result<Option<CpuSet>, FitError> {
        let allocation = self.simulate_all(task, node)?;
        Ok(allocation.map(|allocation| allocation.cpus))
    }

    /// [`VolcanoSession::simulate`] with memory and devices.
    ///
    /// # Errors
    /// If the task does not fit.
    pub fn simulate_all(
        &self,
        task: &VolcanoTask,
        node: &NodeName,
    ) -> Result<Option<TaskAllocation>, FitError> {
        let outcome = match self.nodes.get(node) {
            None => Err(Misfit::UnknownNode),
            Some(state) => simulate(
                task,
                state.numa.as_ref(),
                state.free.as_ref(),
                &state.reserved,
                &state.amounts,
                self.fidelity,
            ),
        };
        outcome.map_err(|misfit| FitError {
            task: task.pod.name.clone(),
            node: node.clone(),
            misfit,
        })
    }

    /// [`VolcanoSession::simulate`], and stores the decision.
    ///
    /// # Errors
    /// If the task does not fit.
    pub fn predicate(
        &mut self,
        task: &VolcanoTask,
        node: &NodeName,
    ) -> Result<Option<CpuSet>, FitError> {
        let outcome = self.simulate_all(task, node);
        match &outcome {
            Ok(Some(allocation)) => {
                let of_task = self.decisions.entry(task.pod.uid.clone()).or_default();
                of_task.insert(node.clone(), allocation.clone());
            }
            Ok(None) | Err(_) if self.fidelity.keeps_stale_decisions() => {}
            Ok(None) | Err(_) => self.drop_decision(&task.pod.uid, node),
        }
        outcome.map(|allocation| allocation.map(|allocation| allocation.cpus))
    }

    fn drop_decision(&mut self, task: &PodUid, node: &NodeName) {
        if let Some(of_task) = self.decisions.get_mut(task) {
            of_task.remove(node);
            if of_task.is_empty() {
                self.decisions.remove(task);
            }
        }
    }

    /// The scores of `nodes` for `task`, in the same order; `None` if the task has no policy, or if the predicate made
    /// no decision about it on any node.
    #[must_use]
    pub fn order(&self, task: &VolcanoTask, nodes: &[NodeName]) -> Option<Vec<f64>> {
        task.policy()?;
        let decisions = self.decisions.get(&task.pod.uid)?;
        let span_on = |node: &NodeName| {
            let numa = self.nodes.get(node)?.numa.as_ref()?;
            Some(span(&numa.cpus, &decisions.get(node)?.cpus, self.fidelity))
        };
        let spans: Vec<usize> = nodes
            .iter()
            .map(|node| span_on(node).unwrap_or(0))
            .collect();
        Some(scores(&spans, self.weight))
    }

    /// The first node with the highest score, or the first node if there are no scores.
    #[must_use]
    pub fn best<'a>(nodes: &'a [NodeName], scores: Option<&[f64]>) -> Option<&'a NodeName> {
        let mut scored = nodes.iter().zip(scores.unwrap_or_default());
        let first = scored
            .next()
            .map_or(nodes.first(), |(node, _)| Some(node))?;
        let Some(highest) = scores.and_then(|scores| scores.first()) else {
            return Some(first);
        };
        let (best, _) = scored.fold((first, *highest), |best, (node, &score)| {
            if score > best.1 { (node, score) } else { best }
        });
        Some(best)
    }

    /// Binds the task to `node` with the allocation that the predicate chose; does nothing without one. Mirrors the
    /// allocate event.
    ///
    /// # Errors
    /// If the CPUs are no longer free or the task is bound already (sound mode only).
    pub fn allocate(&mut self, task: &VolcanoTask, node: &NodeName) -> Result<(), BindConflict> {
        let uid = &task.pod.uid;
        let Some(TaskAllocation { cpus, amounts }) = self.allocation(uid, node).cloned() else {
            return Ok(());
        };
        let checks = !self.fidelity.keeps_stale_decisions();
        if let Some(binding) = self.bound.get(uid).filter(|_| checks) {
            let node = binding.node.clone();
            return Err(BindConflict::Already { node });
        }
        if let Some(state) = self.nodes.get_mut(node) {
            if checks && !state.amounts.has(&amounts) {
                return Err(BindConflict::Shortage { node: node.clone() });
            }
            if let Some(free) = state.free.as_mut() {
                if checks && !cpus.is_subset(free) {
                    return Err(BindConflict::Conflict {
                        node: node.clone(),
                        taken: &cpus - free,
                    });
                }
                *free -= &cpus;
            }
            state.amounts.subtract(&amounts);
        }
        let binding = TaskBinding {
            task: task.pod.name.clone(),
            node: node.clone(),
            cpus,
            amounts,
        };
        self.bound.insert(uid.clone(), binding);
        Ok(())
    }

    /// Releases what the task holds on `node`. Mirrors the deallocate event.
    pub fn deallocate(&mut self, task: &PodUid, node: &NodeName) {
        let held = match self.fidelity.keeps_stale_decisions() {
            true => self.allocation(task, node).cloned(),
            false => {
                let binding = self.bound.get(task);
                binding
                    .filter(|binding| binding.node == *node)
                    .map(|binding| TaskAllocation {
                        cpus: binding.cpus.clone(),
                        amounts: binding.amounts.clone(),
                    })
            }
        };
        let Some(TaskAllocation { cpus, amounts }) = held else {
            return;
        };
        if let Some(state) = self.nodes.get_mut(node) {
            if let Some(free) = state.free.as_mut() {
                *free |= &cpus;
            }
            state.amounts.add(&amounts);
        }
        self.bound.remove(task);
    }

    /// Runs the predicate on all `candidates` and binds the task to the best one.
    ///
    /// # Errors
    /// If the task fits none.
    pub fn place(
        &mut self,
        task: &VolcanoTask,
        candidates: &[NodeName],
    ) -> Result<TaskPlacement, TaskNotPlaced> {
        let uid = &task.pod.uid;
        let decided_before = self.decisions.get(uid).cloned();
        let (mut feasible, mut rejections) = (Vec::new(), Vec::new());
        for node in candidates {
            match self.predicate(task, node) {
                Ok(_) => feasible.push(node.clone()),
                Err(rejection) => rejections.push(rejection),
            }
        }
        let scores = self.order(task, &feasible);
        let name = || task.pod.name.clone();
        let outcome = match VolcanoSession::best(&feasible, scores.as_deref()) {
            None => Err(TaskNotPlaced::NoNode {
                task: name(),
                rejections,
            }),
            Some(node) => self
                .allocate(task, node)
                .map(|()| node.clone())
                .map_err(|reason| TaskNotPlaced::BindConflict {
                    task: name(),
                    reason,
                }),
        };
        match outcome {
            Ok(node) => Ok(TaskPlacement {
                task: uid.clone(),
                node,
                decided_before,
            }),
            Err(error) => {
                self.restore(uid, decided_before);
                Err(error)
            }
        }
    }

    /// Places all tasks or none of them.
    ///
    /// # Errors
    /// If one of them fits no node; the session is unchanged then.
    pub fn place_all(
        &mut self,
        tasks: &[VolcanoTask],
        candidates: &[NodeName],
    ) -> Result<Vec<TaskPlacement>, TaskNotPlaced> {
        let mut placed = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.place(task, candidates) {
                Ok(placement) => placed.push(placement),
                Err(error) => {
                    for placement in placed.into_iter().rev() {
                        self.undo(placement);
                    }
                    return Err(error);
                }
            }
        }
        Ok(placed)
    }

    /// Restores the state before the task was placed.
    pub fn undo(&mut self, placement: TaskPlacement) {
        self.deallocate(&placement.task, &placement.node);
        self.restore(&placement.task, placement.decided_before);
    }

    fn restore(&mut self, task: &PodUid, decisions: Option<BTreeMap<NodeName, TaskAllocation>>) {
        match decisions {
            Some(decisions) => self.decisions.insert(task.clone(), decisions),
            None => self.decisions.remove(task),
        };
    }

    /// Closes the session. Returns the bound tasks, ascending by uid: the next session must not assign their CPUs
    /// before the nodes report them as used.
    #[must_use]
    pub fn close(self) -> BTreeMap<PodUid, TaskBinding> {
        let mut bound = self.bound;
        if self.fidelity.keeps_stale_decisions() {
            for (task, binding) in &mut bound {
                let latest = self
                    .decisions
                    .get(task)
                    .and_then(|of| of.get(&binding.node));
                if let Some(latest) = latest {
                    binding.cpus.clone_from(&latest.cpus);
                    binding.amounts.clone_from(&latest.amounts);
                }
            }
        }
        bound
    }
}

#[cfg(test)]
mod tests;
