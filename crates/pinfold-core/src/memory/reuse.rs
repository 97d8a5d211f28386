//! Memory of finished init containers that later containers of the same pod reuse.
//!
//! An init container that finishes before the next container starts does not keep its memory: a later container of the
//! same pod that is placed on **exactly the same nodes** reuses it, and only the difference is allocated. Reused memory
//! is subtracted from the init container's blocks, so that the blocks of a pod always add up to its allocation. A
//! sidecar reuses memory, but its own memory is not reusable.
//!
//! The kubelet keeps the amounts in `initContainersReusableMemory`, for one pod at a time; that equals the blocks its
//! init containers still have, except after a container was removed or the kubelet restarted.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::demand::PodDemand;
use crate::fidelity::Fidelity;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::Container;

/// The kubelet's `initContainersReusableMemory` of one pod: an amount per mask and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusableInitMemory {
    /// The pod whose memory was allocated last.
    pub pod: PodUid,
    /// One block per mask and type.
    pub blocks: Vec<MemoryBlock>,
}

/// What the containers of one pod hold while they are decided one after the other.
#[derive(Clone, Debug, Default)]
pub struct PodMemory<'p> {
    /// The init containers so far that finish and still have memory, by its nodes and type.
    inits: BTreeMap<(NodeSet, ResourceName), InitBlocks<'p>>,
    /// The last container that held memory before the first one was decided, unless it was decided by now.
    last_holder: Option<&'p ContainerName>,
}

/// Memory of one type on one set of nodes.
#[derive(Clone, Debug, Default)]
struct InitBlocks<'p> {
    /// What each init container still has, in the order of the pod; never 0.
    sizes: VecDeque<(&'p ContainerName, u64)>,
    total: u128,
}

impl<'p> PodMemory<'p> {
    /// What the containers of a pod hold before its first container is decided.
    pub(crate) fn new(state: &MemoryState, demand: &PodDemand<'p>) -> Self {
        let pod = demand.pod();
        let last_holder = state.containers.get(&pod.uid).and_then(|held| {
            let names = pod.all_containers().map(|container| &container.name);
            names.filter(|name| held.contains_key(*name)).last()
        });
        Self {
            inits: BTreeMap::new(),
            last_holder,
        }
    }

    /// What the containers of a pod hold before `container` is decided, with all containers before it as in `state`.
    #[must_use]
    pub fn before(state: &MemoryState, demand: &PodDemand<'p>, container: &ContainerName) -> Self {
        let mut own = Self::new(state, demand);
        let earlier = demand.pod().all_containers();
        for earlier in earlier.take_while(|earlier| earlier.name != *container) {
            let blocks = state.blocks(&demand.pod().uid, &earlier.name);
            own.add(demand, earlier, blocks.unwrap_or_default());
        }
        own
    }

    /// Whether the next container or one after it held memory before the first one was decided.
    pub(super) fn later_container_holds_memory(&self) -> bool {
        self.last_holder.is_some()
    }

    /// Adds the next container, which holds `blocks`.
    pub(super) fn add(
        &mut self,
        demand: &PodDemand<'p>,
        container: &'p Container,
        blocks: &[MemoryBlock],
    ) {
        if self.last_holder == Some(&container.name) {
            self.last_holder = None;
        }
        if !demand.is_finishing_init(&container.name) {
            return;
        }
        for block in blocks.iter().filter(|block| block.size > 0) {
            let key = (block.nodes, block.resource.clone());
            let left = self.inits.entry(key).or_default();
            left.sizes.push_back((&container.name, block.size));
            left.total += u128::from(block.size);
        }
    }

    /// Subtracts what the next container, which is assigned `given`, reuses from the blocks of the init containers.
    /// Mirrors `updateInitContainersMemoryBlocks`.
    pub(super) fn subtract_reused(
        &mut self,
        transaction: &mut MemoryTransaction<'_>,
        pod: &PodUid,
        given: &[MemoryBlock],
    ) {
        if self.inits.is_empty() {
            return;
        }
        for block in given {
            let key = (block.nodes, block.resource.clone());
            let Some(left) = self.inits.get_mut(&key) else {
                continue;
            };
            let mut needed = block.size;
            while needed > 0
                && let Some((init, size)) = left.sizes.front_mut()
            {
                let taken = needed.min(*size);
                needed -= taken;
                *size -= taken;
                left.total -= u128::from(taken);
                let held = transaction.blocks(pod, init).unwrap_or_default();
                let held = without(held, block, taken);
                transaction.set_blocks(pod, init, Some(held));
                if *size == 0 {
                    left.sizes.pop_front();
                }
            }
            if left.sizes.is_empty() {
                self.inits.remove(&key);
            }
        }
    }
}

/// `held` with `taken` bytes less of the type and on the nodes of `block`.
fn without(held: &[MemoryBlock], block: &MemoryBlock, mut taken: u64) -> Vec<MemoryBlock> {
    let mut held = held.to_vec();
    for old in &mut held {
        if old.resource == block.resource && old.nodes == block.nodes {
            let part = old.size.min(taken);
            old.size -= part;
            taken -= part;
        }
    }
    held
}

/// The memory that a container may reuse: amounts by nodes and type.
#[derive(Clone, Debug, Default)]
pub(super) struct ReusableMemory {
    amounts: BTreeMap<(NodeSet, ResourceName), u64>,
}

impl ReusableMemory {
    /// The memory that the next container of a pod may reuse from its init containers.
    pub(super) fn of_container(
        state: &MemoryState,
        pod: &PodUid,
        own: &PodMemory<'_>,
        fidelity: Fidelity,
    ) -> Self {
        if fidelity.remembers_memory_beside_the_table() {
            return Self::remembered(state, pod);
        }
        let total = |left: &InitBlocks<'_>| u64::try_from(left.total).unwrap_or(u64::MAX);
        let amounts = own.inits.iter();
        Self {
            amounts: amounts
                .map(|(key, left)| (key.clone(), total(left)))
                .collect(),
        }
    }

    /// The memory that a pod as a whole may reuse: none, except with the kubelet's defects.
    pub(super) fn of_pod(state: &MemoryState, pod: &PodUid, fidelity: Fidelity) -> Self {
        match fidelity.remembers_memory_beside_the_table() {
            true => Self::remembered(state, pod),
            false => Self::default(),
        }
    }

    fn remembered(state: &MemoryState, pod: &PodUid) -> Self {
        let mut amounts = BTreeMap::new();
        for block in remembered_blocks(state, pod) {
            let key = (block.nodes, block.resource.clone());
            let amount: &mut u64 = amounts.entry(key).or_default();
            *amount = amount.saturating_add(block.size);
        }
        Self { amounts }
    }

    /// The reusable amount on exactly `nodes`.
    pub(super) fn amount(&self, nodes: NodeSet, resource: &ResourceName) -> u64 {
        if self.amounts.is_empty() {
            return 0;
        }
        let amount = self.amounts.get(&(nodes, resource.clone()));
        amount.copied().unwrap_or(0)
    }

    /// The masks with reusable memory; may contain duplicates.
    pub(super) fn masks(&self) -> impl Iterator<Item = NodeSet> {
        self.amounts.keys().map(|(nodes, _)| *nodes)
    }
}

/// The blocks of the kubelet's `initContainersReusableMemory`, if they are of this pod.
fn remembered_blocks<'s>(state: &'s MemoryState, pod: &PodUid) -> &'s [MemoryBlock] {
    match &state.reusable_init {
        Some(reusable_init) if reusable_init.pod == *pod => &reusable_init.blocks,
        _ => &[],
    }
}

/// The reusable memory after `container` was assigned `given`. Mirrors `updatePodReusableMemory`.
pub(super) fn remember(
    state: &MemoryState,
    demand: &PodDemand<'_>,
    container: &Container,
    given: &[MemoryBlock],
) -> Option<ReusableInitMemory> {
    let pod = &demand.pod().uid;
    let mut blocks = remembered_blocks(state, pod).to_vec();
    let is_reusable = demand.is_finishing_init(&container.name);
    for block in given {
        let same =
            |old: &&mut MemoryBlock| old.resource == block.resource && old.nodes == block.nodes;
        match blocks.iter_mut().find(same) {
            Some(old) if is_reusable => old.size = old.size.max(block.size),
            Some(old) => old.size = old.size.saturating_sub(block.size),
            None if is_reusable => blocks.push(block.clone()),
            None => {}
        }
    }
    blocks.retain(|block| block.size > 0);
    let pod = pod.clone();
    (!blocks.is_empty()).then_some(ReusableInitMemory { pod, blocks })
}
