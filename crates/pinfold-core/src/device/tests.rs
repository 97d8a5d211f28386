//! Tests of the device manager as a whole: rules as tables, invariants as properties.

use proptest::prelude::*;

use super::*;
use crate::demand::{PodDemand, PodLevel};
use crate::edit::Direction;
use crate::hint::{Hint, ProviderHints, ResourceHints};
use crate::name::{ContainerName, PodUid};
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};
use crate::quantity::Quantity;

mod rules;

const GPU: &str = "example.com/gpu";

fn gpu() -> ResourceName {
    GPU.into()
}

fn set(ids: &str) -> DeviceSet {
    ids.split_whitespace().map(DeviceId::from).collect()
}

fn nodes(ids: &[i64]) -> NodeSet {
    NodeSet::from_ids(ids.iter().copied()).expect("possible ids")
}

fn device(numa: Option<&[i64]>) -> Device {
    Device {
        numa: numa.map(<[i64]>::to_vec),
        healthy: true,
    }
}

fn pool_of(
    known: NodeSet,
    devices: impl IntoIterator<Item = (&'static str, Device)>,
) -> DevicePool {
    let mut pool = DevicePool::new(known);
    let devices = devices.into_iter();
    pool.set_devices(gpu(), devices.map(|(id, device)| (id.into(), device)));
    pool
}

fn container(name: &str, gpus: i64) -> Container {
    Container::guaranteed(name, [(gpu(), Quantity::from(gpus))])
}

fn pod(uid: &str, init_containers: Vec<Container>, containers: Vec<Container>) -> Pod {
    Pod::new(uid, containers).with_init(init_containers)
}

fn assign(state: &mut DeviceState, pod: &str, container: &str, devices: &str) {
    let edit = DeviceEdit {
        pod: pod.into(),
        container: container.into(),
        resource: gpu(),
        before: None,
        after: Some(set(devices)),
    };
    state.apply(&edit).expect("it held nothing");
}

/// Allocates the devices of every container of the pod in order; all edits, or the error and no change.
fn admit(
    pool: &DevicePool,
    state: &mut DeviceState,
    pod: &Pod,
    affinity: Option<NodeSet>,
) -> Result<Vec<DeviceEdit>, DeviceError> {
    let before = state.clone();
    let demand = PodDemand::new(pod, PodLevel::Ignored);
    let mut edits = Vec::new();
    for container in pod.all_containers() {
        let request = DeviceRequest {
            pod,
            container,
            affinity,
            reusable: &ReusableDevices::before(state, &demand, &container.name),
        };
        let mut given = Vec::new();
        match allocate(pool, state, request, &mut NoPreference, &mut given) {
            Ok(()) => {
                for edit in &given {
                    state.apply(edit).expect("made for this state");
                }
                edits.extend(given);
            }
            Err(error) => {
                *state = before;
                return Err(error);
            }
        }
    }
    Ok(edits)
}

/// Any device: on known and unknown nodes, on several, without or with empty topology information.
fn any_device() -> impl Strategy<Value = Device> {
    let ids = prop::sample::select(vec![-1_i64, 0, 1, 2, 5, 7, 40, 63, 64, 1000]);
    let numa = prop_oneof![
        1 => Just(None),
        5 => prop::collection::vec(ids, 0..4).prop_map(Some),
    ];
    (numa, prop::bool::weighted(0.8)).prop_map(|(numa, healthy)| Device { numa, healthy })
}

fn any_pool() -> impl Strategy<Value = DevicePool> {
    let known = prop::sample::subsequence(vec![0_i64, 1, 2, 5, 7, 40, 63], 1..6);
    let devices = prop::collection::vec(any_device(), 0..9);
    (known, devices).prop_map(|(known, devices)| {
        let mut pool = DevicePool::new(nodes(&known));
        let devices = devices.into_iter().enumerate();
        pool.set_devices(
            gpu(),
            devices.map(|(index, device)| (format!("d{index}").into(), device)),
        );
        pool
    })
}

/// The list of hints by definition, one mask after the other.
fn listed(
    pool: &DevicePool,
    available: &DeviceSet,
    reusable: &DeviceSet,
    request: usize,
) -> Vec<Hint> {
    let devices = pool.devices(&gpu()).expect("registered");
    let named = devices
        .values()
        .fold(NodeSet::EMPTY, |all, one| all | one.nodes());
    let known = named & pool.nodes();
    let universe = if known.is_empty() {
        pool.nodes()
    } else {
        known
    };
    let lies_in = |id: &DeviceId, mask| {
        devices
            .get(id)
            .is_some_and(|one| one.nodes().intersects(mask))
    };
    let mut least = universe.len();
    let mut masks = Vec::new();
    for mask in universe.subsets_by_width() {
        if devices.keys().filter(|id| lies_in(id, mask)).count() >= request {
            least = least.min(mask.len());
        }
        let informed = |id: &&DeviceId| devices.get(*id).is_some_and(|one| one.numa.is_some());
        let must: Vec<_> = reusable.iter().filter(informed).collect();
        let free = available.iter().filter(|id| lies_in(id, mask)).count();
        if must.iter().all(|id| lies_in(id, mask)) && must.len() + free >= request {
            masks.push(mask);
        }
    }
    masks
        .into_iter()
        .map(|mask| Hint::on(mask, mask.len() == least))
        .collect()
}

fn written_out(hints: &ProviderHints) -> Option<Vec<Hint>> {
    match &hints.rows.first()?.1 {
        ResourceHints::DontCare => None,
        ResourceHints::Unsatisfiable => Some(Vec::new()),
        ResourceHints::Family(family) => Some(family.list()),
        ResourceHints::List(list) => Some(list.clone()),
    }
}

proptest! {
    #[test]
    fn the_family_is_the_list_that_the_definition_gives(
        pool in any_pool(),
        taken in prop::collection::vec(0..4_u8, 9),
        request in 0..6_usize,
    ) {
        let chosen = |wanted: u8| -> DeviceSet {
            let ids = pool.devices(&gpu()).into_iter().flatten().zip(&taken);
            ids.filter(|(_, taken)| **taken == wanted).map(|((id, _), _)| id.clone()).collect()
        };
        let (others, left) = (chosen(1), chosen(2));
        let mut state = DeviceState::default();
        for (pod, devices) in [("other", &others), ("pod", &left)] {
            let edit = DeviceEdit {
                pod: pod.into(),
                container: "init".into(),
                resource: gpu(),
                before: None,
                after: (!devices.is_empty()).then(|| devices.clone()),
            };
            state.apply(&edit).expect("it held nothing");
        }
        let requested = i64::try_from(request).expect("small");
        let pod = pod("pod", vec![], vec![container("c", requested)]);
        let reusable = ReusableDevices::from(DevicesByResource::from([(gpu(), left.clone())]));
        let hints = container_hints(
            &pool,
            &state,
            &pod,
            &pod.containers[0],
            &reusable,
            DeviceMasks::NodesWithDevices,
        );

        let available = pool.available(&state, &gpu());
        let expected = if !pool.is_aligned(&gpu()) {
            None
        } else if available.len() + left.len() < request {
            Some(Vec::new())
        } else {
            Some(listed(&pool, &available, &left, request))
        };
        prop_assert_eq!(written_out(&hints), expected);
    }

    #[test]
    fn a_device_is_never_held_by_two_containers_that_run_together(
        pool in any_pool(),
        pods in prop::collection::vec((prop::collection::vec((0..4_i64, any::<bool>()), 0..3),
            prop::collection::vec(0..4_i64, 1..3), any::<bool>()), 1..6),
        affinity in prop::option::of(prop::sample::subsequence(vec![0_i64, 1, 2, 5, 40], 1..4)),
    ) {
        let affinity = affinity.map(|ids| nodes(&ids));
        let mut state = DeviceState::default();
        let mut admitted = Vec::new();
        for (index, (inits, apps, is_released)) in pods.into_iter().enumerate() {
            let inits = inits.into_iter().enumerate().map(|(i, (gpus, restartable))| Container {
                restartable,
                ..container(&format!("i{i}"), gpus)
            });
            let apps = apps.into_iter().enumerate();
            let apps = apps.map(|(i, gpus)| container(&format!("c{i}"), gpus));
            let pod = pod(&format!("p{index}"), inits.collect(), apps.collect());
            let before = state.clone();
            if let Ok(edits) = admit(&pool, &mut state, &pod, affinity) {
                for container in pod.all_containers() {
                    let held = state.held(&pod.uid, &container.name, &gpu()).map_or(0, BTreeSet::len);
                    let requested = container.limits[&gpu()].value();
                    prop_assert_eq!(i64::try_from(held), Ok(requested), "never more or less than requested");
                }
                let after = state.clone();
                for edit in edits.iter().rev() {
                    state.edit(edit, Direction::Revert).expect("the last edit");
                }
                prop_assert_eq!(&state, &before, "a reverted admission changes nothing");
                for edit in &edits {
                    state.apply(edit).expect("the same state again");
                }
                prop_assert_eq!(&state, &after);
                admitted.push(pod);
            }
            prop_assert!(every_device_has_one_holder(&state, &admitted));
            if is_released && let Some(pod) = admitted.pop() {
                for edit in state.remove_pod(&pod.uid) {
                    state.apply(&edit).expect("made for this state");
                }
                prop_assert!(state.pods().all(|(uid, _)| *uid != pod.uid));
            }
        }
        let text = serde_json::to_string(&state).expect("text");
        prop_assert_eq!(serde_json::from_str::<DeviceState>(&text).expect("a state"), state);
    }
}

/// Whether every device has one holder, not counting init containers that have finished.
fn every_device_has_one_holder(state: &DeviceState, pods: &[Pod]) -> bool {
    let mut seen = DeviceSet::new();
    let mut left = DeviceSet::new();
    pods.iter().all(|pod| {
        let own: Vec<_> = pod
            .all_containers()
            .filter_map(|one| Some((one, state.held(&pod.uid, &one.name, &gpu())?)))
            .collect();
        let (ended, running): (Vec<_>, Vec<_>) = own
            .iter()
            .partition(|(one, _)| pod.is_finishing_init(&one.name));
        let apart = running
            .iter()
            .flat_map(|(_, held)| held.iter())
            .all(|id| seen.insert(id.clone()));
        let mine: DeviceSet = ended
            .iter()
            .flat_map(|(_, held)| held.iter().cloned())
            .collect();
        let others = mine.iter().all(|id| !left.contains(id));
        left.extend(mine);
        left.extend(running.iter().flat_map(|(_, held)| held.iter().cloned()));
        apart && others
    })
}
