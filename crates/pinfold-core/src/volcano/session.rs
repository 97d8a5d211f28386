//! [`VolcanoSession`]: one round of scheduling, in which many tasks are placed on many nodes without conflict.
//!
//! Mirrors `OnSessionOpen`, the allocate and deallocate events and `OnSessionClose` of the plugin.

use std::collections::BTreeMap;

use super::numa_amounts::{NumaAmounts, TakenAmounts};
use super::predicate::{
    FitError, Misfit, NumaInfo, SessionNode, TaskAllocation, VolcanoTask, simulate,
};
use super::score::{scores, span};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::name::{NodeName, PodUid};

/// The state of one scheduling round.
#[derive(Clone, Debug, PartialEq)]
pub struct VolcanoSession {
    nodes: BTreeMap<NodeName, SessionNodeState>,
    /// What each task would get on each node that was asked.
    decisions: BTreeMap<PodUid, BTreeMap<NodeName, TaskAllocation>>,
    bound: BTreeMap<PodUid, TaskBinding>,
    weight: i64,
    fidelity: Fidelity,
}

/// One node, with what is still free in this round.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionNodeState {
    numa: Option<NumaInfo>,
    free: Option<CpuSet>,
    reserved: CpuSet,
    amounts: NumaAmounts,
}

/// A task that was given its CPUs, memory and devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBinding {
    /// `namespace/name` of the task.
    pub task: String,
    /// Where it goes.
    pub node: NodeName,
    /// The CPUs it gets there.
    pub cpus: CpuSet,
    /// The memory and devices it gets there, as far as they are counted per NUMA node.
    pub amounts: TakenAmounts,
}

/// Why a decision was not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindConflict {
    /// Others got some of its CPUs since.
    #[error("CPUs {taken} of node {node} are no longer free; ask the node again")]
    Conflict {
        /// The node.
        node: NodeName,
        /// The CPUs that are gone.
        taken: CpuSet,
    },
    /// Others got some of its memory or devices since.
    #[error("memory or devices of node {node} are no longer free; ask the node again")]
    Shortage {
        /// The node.
        node: NodeName,
    },
    /// The task has its CPUs already.
    #[error("the task is bound to node {node} already")]
    Already {
        /// Where.
        node: NodeName,
    },
}

/// Why a task found no place. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskNotPlaced {
    /// No node takes it.
    #[error("task {task} fits none of {} nodes", rejections.len())]
    NoNode {
        /// `namespace/name` of the task.
        task: String,
        /// What each node said.
        rejections: Vec<FitError>,
    },
    /// Its best node could not be bound.
    #[error("task {task}: {reason}")]
    BindConflict {
        /// `namespace/name` of the task.
        task: String,
        /// Why.
        #[source]
        reason: BindConflict,
    },
}

/// A task that was placed, with what is needed to undo that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlacement {
    /// The task.
    pub task: PodUid,
    /// Its node.
    pub node: NodeName,
    /// What was decided about it before.
    decided_before: Option<BTreeMap<NodeName, TaskAllocation>>,
}

impl VolcanoSession {
    /// Begins a round with what the nodes report. The plugin's weight is 1 unless configured.
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

    /// Adds what is known of a node's memory and devices per NUMA node, to be aligned with its CPUs. Nothing
    /// happens if the node is unknown.
    pub fn supply(&mut self, node: &NodeName, amounts: NumaAmounts) {
        if let Some(state) = self.nodes.get_mut(node) {
            state.amounts = amounts;
        }
    }

    /// What is still free of a node's memory and devices.
    #[must_use]
    pub fn amounts(&self, node: &NodeName) -> Option<&NumaAmounts> {
        self.nodes.get(node).map(|state| &state.amounts)
    }

    /// What is still free on a node; `None` if it is unknown or reports no CPUs.
    #[must_use]
    pub fn free(&self, node: &NodeName) -> Option<&CpuSet> {
        self.nodes.get(node)?.free.as_ref()
    }

    /// The CPUs that were decided for a task on a node.
    #[must_use]
    pub fn decision(&self, task: &PodUid, node: &NodeName) -> Option<&CpuSet> {
        self.grant(task, node).map(|grant| &grant.cpus)
    }

    /// All that was decided for a task on a node.
    #[must_use]
    pub fn grant(&self, task: &PodUid, node: &NodeName) -> Option<&TaskAllocation> {
        self.decisions.get(task)?.get(node)
    }

    /// Whether `task` fits `node` and which CPUs it would get, without remembering it: many nodes may be
    /// asked at the same time. `None` means that it fits and the node need not decide.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn simulate(
        &self,
        task: &VolcanoTask,
        node: &NodeName,
    ) -> Result<Option<CpuSet>, FitError> {
        let grant = self.simulate_all(task, node)?;
        Ok(grant.map(|grant| grant.cpus))
    }

    /// As [`VolcanoSession::simulate`], with memory and devices.
    ///
    /// # Errors
    /// If it does not fit.
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

    /// As [`VolcanoSession::simulate`], and remembers the decision.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn predicate(
        &mut self,
        task: &VolcanoTask,
        node: &NodeName,
    ) -> Result<Option<CpuSet>, FitError> {
        let outcome = self.simulate_all(task, node);
        match &outcome {
            Ok(Some(grant)) => {
                let of_task = self.decisions.entry(task.pod.uid.clone()).or_default();
                of_task.insert(node.clone(), grant.clone());
            }
            Ok(None) | Err(_) if self.fidelity.keeps_stale_decisions() => {}
            Ok(None) | Err(_) => self.forget(&task.pod.uid, node),
        }
        outcome.map(|grant| grant.map(|grant| grant.cpus))
    }

    fn forget(&mut self, task: &PodUid, node: &NodeName) {
        if let Some(of_task) = self.decisions.get_mut(task) {
            of_task.remove(node);
            if of_task.is_empty() {
                self.decisions.remove(task);
            }
        }
    }

    /// The scores of `nodes` for `task`, in the same order; `None` if there is nothing to say: the task
    /// has no policy of its own, or no node has decided about it.
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

    /// The node with the highest score; the first of them, and the first of all without scores.
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

    /// Gives the task what was decided for it on `node`; without a decision nothing happens.
    /// Mirrors the allocate event.
    ///
    /// # Errors
    /// If the CPUs are gone or the task has some already (sound only).
    pub fn allocate(&mut self, task: &VolcanoTask, node: &NodeName) -> Result<(), BindConflict> {
        let uid = &task.pod.uid;
        let Some(TaskAllocation { cpus, amounts }) = self.grant(uid, node).cloned() else {
            return Ok(());
        };
        let looks = !self.fidelity.keeps_stale_decisions();
        if let Some(binding) = self.bound.get(uid).filter(|_| looks) {
            let node = binding.node.clone();
            return Err(BindConflict::Already { node });
        }
        if let Some(state) = self.nodes.get_mut(node) {
            if looks && !state.amounts.has(&amounts) {
                return Err(BindConflict::Shortage { node: node.clone() });
            }
            if let Some(free) = state.free.as_mut() {
                if looks && !cpus.is_subset(free) {
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

    /// Takes back what the task got on `node`. Mirrors the deallocate event.
    pub fn deallocate(&mut self, task: &PodUid, node: &NodeName) {
        let held = match self.fidelity.keeps_stale_decisions() {
            true => self.grant(task, node).cloned(),
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

    /// Asks all `candidates`, takes the best one and binds the task to it.
    ///
    /// # Errors
    /// If there is none.
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

    /// Places all tasks or none.
    ///
    /// # Errors
    /// If one of them finds no place; what was placed before it has been undone.
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

    /// Puts everything back as it was before the task was placed.
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

    /// Ends the round: the tasks whose CPUs the next round must not hand out before the nodes report
    /// them as used, ascending by uid.
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
