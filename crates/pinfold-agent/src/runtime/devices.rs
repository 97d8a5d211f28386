//! [`Devices`]: who gives out devices, and what containers need for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri::Rejection;
use nri::api::ContainerAdjustment;
use pinfold_core::device::DevicesByResource;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_devices::align;
use pinfold_devices::pod_resources::PodResourcesClient;
use pinfold_devices::{ContainerEdits, DeviceHost};
use pinfold_kube::pod::{PodObject, is_extended};

use super::errands::Errands;
use super::{Runtime, Witness, edits, lock};
use crate::node::{Node, Sandbox};

/// What a container needs for its devices, by pod, container and devices.
type Answers = Errands<(PodUid, ContainerName, DevicesByResource), ContainerEdits>;

/// How long device plugins are waited for, of the two seconds that a runtime gives us.
const PLUGINS_ANSWER: Duration = Duration::from_millis(900);
/// What is said when they take longer.
const NOT_YET: &str =
    "its device plugins have not answered yet; they are still being asked, try again";

/// Device plugins of our own.
pub struct Ours {
    pub(super) host: Arc<DeviceHost>,
    answers: Answers,
    /// Containers whose plugins are told that they start.
    starts: Errands<(PodUid, ContainerName), ()>,
}

impl Ours {
    /// These plugins.
    #[must_use]
    pub fn new(host: Arc<DeviceHost>) -> Self {
        Self {
            host,
            answers: Errands::default(),
            starts: Errands::default(),
        }
    }

    /// A container is about to start: its plugins are told.
    pub(super) fn pre_start(&self, pod: PodUid, name: ContainerName) -> Result<(), Rejection> {
        let (host, key) = (self.host.clone(), (pod, name));
        let (pod, name) = key.clone();
        let start = move || {
            let ready = host.pre_start(&pod, &name);
            ready.map_err(|error| error.to_string())
        };
        let ready = self.starts.run(&key, PLUGINS_ANSWER, start);
        ready
            .map_err(Rejection::new)?
            .ok_or(Rejection::new(NOT_YET))
    }
}

/// Who gives out devices.
pub enum Devices {
    /// We do, with plugins of our own.
    Ours(Ours),
    /// The kubelet does; it tells which on request.
    Kubelets(PodResourcesClient),
}

impl Runtime {
    /// The pod as it is to be decided about: beside the devices that the kubelet has given it, if it has.
    pub(super) fn with_devices(&self, pod: &PodObject) -> Option<align::AlignedPod> {
        let Devices::Kubelets(reader) = &self.devices else {
            return None;
        };
        if !asks_for_devices(pod) || !reader.is_there() {
            return None;
        }
        match reader.get(&pod.meta.namespace, &pod.meta.name) {
            Ok(answer) => Some(align::align_pod(
                &pod.pod,
                &align::allocated_devices(&answer),
            )),
            Err(error) => {
                let name = &pod.pod.name;
                self.witness.troubled(&format!(
                    "the kubelet does not tell the devices of {name}, so it is not aligned to them: {error}"
                ));
                None
            }
        }
    }

    /// What a container needs for its devices.
    pub(super) fn device_edits(
        &self,
        adjustment: ContainerAdjustment,
        pod: &PodUid,
        name: &ContainerName,
    ) -> Result<ContainerAdjustment, Rejection> {
        let Devices::Ours(ours) = &self.devices else {
            return Ok(adjustment);
        };
        let devices = lock(&self.node).devices(pod, name);
        if devices.is_empty() {
            return Ok(adjustment);
        }
        let host = ours.host.clone();
        let key = (pod.clone(), name.clone(), devices);
        let allocate = {
            let (pod, name, devices) = key.clone();
            move || {
                let wanted = host.allocate(&pod, &name, &devices);
                wanted.map_err(|error| error.to_string())
            }
        };
        let wanted = ours.answers.run(&key, PLUGINS_ANSWER, allocate);
        let Some(wanted) = wanted.map_err(Rejection::new)? else {
            return Err(Rejection::new(NOT_YET));
        };
        for conflict in &wanted.conflicts {
            self.witness.troubled(&conflict.to_string());
        }
        Ok(edits::adjust(adjustment, &wanted)?)
    }

    /// The devices that the kubelet has given to pods that nobody knows yet.
    pub(super) fn given_to_strangers(
        &self,
        pods: &[(Sandbox, Option<Arc<PodObject>>)],
    ) -> BTreeMap<PodUid, align::AlignedPod> {
        match &self.devices {
            Devices::Kubelets(reader) => {
                given_to_strangers(&self.node, reader, &*self.witness, pods)
            }
            Devices::Ours(_) => BTreeMap::new(),
        }
    }
}

/// The devices that the kubelet has given to pods that nobody knows yet, asked for all of them at once.
pub(crate) fn given_to_strangers(
    node: &Mutex<Node>,
    reader: &PodResourcesClient,
    witness: &dyn Witness,
    pods: &[(Sandbox, Option<Arc<PodObject>>)],
) -> BTreeMap<PodUid, align::AlignedPod> {
    let strangers: Vec<&Arc<PodObject>> = {
        let node = lock(node);
        let unknown = pods
            .iter()
            .filter(|(sandbox, _)| !node.is_here(&sandbox.uid));
        let known = unknown.filter_map(|(_, pod)| pod.as_ref());
        known.filter(|pod| asks_for_devices(pod)).collect()
    };
    if strangers.is_empty() || !reader.is_there() {
        return BTreeMap::new();
    }
    let listed = match reader.list() {
        Ok(listed) => listed,
        Err(error) => {
            let count = strangers.len();
            witness.troubled(&format!(
                "the kubelet does not tell the devices of {count} pods, so they are not aligned to them: {error}"
            ));
            return BTreeMap::new();
        }
    };
    let aligned = strangers.into_iter().filter_map(|pod| {
        let meta = &pod.meta;
        let mut listed = listed.iter();
        let found = listed.find(|one| one.name == meta.name && one.namespace == meta.namespace)?;
        let aligned = align::align_pod(&pod.pod, &align::allocated_devices(found));
        Some((pod.pod.uid.clone(), aligned))
    });
    aligned.collect()
}

/// Whether any container asks for something that device plugins give.
fn asks_for_devices(pod: &PodObject) -> bool {
    let mut asked = pod.pod.all_containers().flat_map(|one| one.limits.keys());
    asked.any(|resource| is_extended(resource.as_str()))
}
