//! [`DeviceSource`]: which program assigns devices, and the container adjustments they need.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubelet_api::pod_resources::PodResources;
use nri::EventError;
use nri::api::ContainerAdjustment;
use pinfold_core::device::DevicesByResource;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_devices::align;
use pinfold_devices::pod_resources::PodResourcesClient;
use pinfold_devices::{ContainerEdits, DeviceHost};
use pinfold_kube::pod::{PodObject, is_extended};

use super::background_calls::BackgroundCalls;
use super::{NriPlugin, device_edits, lock};
use crate::node::{ManagedNode, Sandbox};

/// `Allocate` calls of device plugins, by pod, container and devices.
type AllocationCalls = BackgroundCalls<(PodUid, ContainerName, DevicesByResource), ContainerEdits>;

/// How long to wait for device plugins: the runtime drops an NRI plugin after two seconds.
const DEVICE_PLUGIN_TIMEOUT: Duration = Duration::from_millis(900);
/// The error when they take longer.
const STILL_WAITING: &str =
    "the device plugins have not answered yet; the call is still running, try again";

/// Device plugins that registered with the agent.
pub struct AgentDevices {
    pub(super) host: Arc<DeviceHost>,
    allocations: AllocationCalls,
    /// `PreStartContainer` calls of device plugins.
    starts: BackgroundCalls<(PodUid, ContainerName), ()>,
}

impl AgentDevices {
    /// The device plugins of this host.
    #[must_use]
    pub fn new(host: Arc<DeviceHost>) -> Self {
        Self {
            host,
            allocations: BackgroundCalls::default(),
            starts: BackgroundCalls::default(),
        }
    }

    /// Calls `PreStartContainer` of the container's device plugins.
    pub(super) fn pre_start(&self, pod: PodUid, name: ContainerName) -> Result<(), EventError> {
        let (host, key) = (self.host.clone(), (pod, name));
        let (pod, name) = key.clone();
        let start = move || {
            let ready = host.pre_start(&pod, &name);
            ready.map_err(|error| error.to_string())
        };
        let ready = self.starts.run(&key, DEVICE_PLUGIN_TIMEOUT, start);
        ready
            .map_err(EventError::new)?
            .ok_or(EventError::new(STILL_WAITING))
    }
}

/// Which program assigns devices to containers.
pub enum DeviceSource {
    /// The agent, with the device plugins that registered with it.
    Agent(AgentDevices),
    /// The kubelet; its podresources API lists them.
    Kubelet(PodResourcesClient),
}

impl NriPlugin {
    /// The devices that the kubelet assigned to a pod, as constraints for its admission; `None` if there are none. From
    /// `List`: kubelets before 1.34 do not answer `Get`.
    ///
    /// # Errors
    /// If the kubelet does not list them: the pod would not be on the NUMA nodes of its devices. The kubelet tries again.
    pub(super) fn kubelet_devices(
        &self,
        pod: &PodObject,
    ) -> Result<Option<align::AlignedPod>, EventError> {
        let DeviceSource::Kubelet(reader) = &self.devices else {
            return Ok(None);
        };
        let is_known = lock(&self.node).has_pod(&pod.pod.uid);
        if is_known || !requests_devices(pod) || !reader.is_there() {
            return Ok(None);
        }
        match reader.list() {
            Ok(listed) => Ok(align_to_listed(pod, &listed)),
            Err(error) => {
                let name = &pod.pod.name;
                tracing::warn!(pod = %name, pins = self.pins, %error, "kubelet podresources API failed");
                match self.pins {
                    true => Err(EventError::new(format!(
                        "Pinfold: the devices of the pod are not known: {error}; try again"
                    ))),
                    false => Ok(None),
                }
            }
        }
    }

    /// Adds what the device plugins return for a container's devices to its adjustment.
    pub(super) fn device_edits(
        &self,
        adjustment: ContainerAdjustment,
        pod: &PodUid,
        name: &ContainerName,
    ) -> Result<ContainerAdjustment, EventError> {
        let DeviceSource::Agent(agent) = &self.devices else {
            return Ok(adjustment);
        };
        let devices = lock(&self.node).devices(pod, name);
        if devices.is_empty() {
            return Ok(adjustment);
        }
        let host = agent.host.clone();
        let key = (pod.clone(), name.clone(), devices);
        let allocate = {
            let (pod, name, devices) = key.clone();
            move || {
                let wanted = host.allocate(&pod, &name, &devices);
                wanted.map_err(|error| error.to_string())
            }
        };
        let wanted = agent.allocations.run(&key, DEVICE_PLUGIN_TIMEOUT, allocate);
        let Some(wanted) = wanted.map_err(EventError::new)? else {
            return Err(EventError::new(STILL_WAITING));
        };
        for conflict in &wanted.conflicts {
            tracing::warn!(%pod, container = %name, %conflict, "device plugins disagree");
        }
        Ok(device_edits::adjust(adjustment, &wanted)?)
    }

    /// The devices that the kubelet assigned to pods that are not in the ledger yet.
    pub(super) fn kubelet_devices_of_new_pods(
        &self,
        pods: &[(Sandbox, Option<Arc<PodObject>>)],
    ) -> BTreeMap<PodUid, align::AlignedPod> {
        match &self.devices {
            DeviceSource::Kubelet(reader) => kubelet_devices_of_new_pods(&self.node, reader, pods),
            DeviceSource::Agent(_) => BTreeMap::new(),
        }
    }
}

/// The devices that the kubelet assigned to pods that are not in the ledger yet, from one `List` call.
pub(crate) fn kubelet_devices_of_new_pods(
    node: &Mutex<ManagedNode>,
    reader: &PodResourcesClient,
    pods: &[(Sandbox, Option<Arc<PodObject>>)],
) -> BTreeMap<PodUid, align::AlignedPod> {
    let new_pods: Vec<&Arc<PodObject>> = {
        let node = lock(node);
        let unknown = pods
            .iter()
            .filter(|(sandbox, _)| !node.has_pod(&sandbox.uid));
        let known = unknown.filter_map(|(_, pod)| pod.as_ref());
        known.filter(|pod| requests_devices(pod)).collect()
    };
    if new_pods.is_empty() || !reader.is_there() {
        return BTreeMap::new();
    }
    let listed = match reader.list() {
        Ok(listed) => listed,
        Err(error) => {
            let pods = new_pods.len();
            tracing::warn!(pods, %error, "kubelet podresources API failed: pods not aligned to their devices");
            return BTreeMap::new();
        }
    };
    let aligned = new_pods.into_iter().filter_map(|pod| {
        let aligned = align_to_listed(pod, &listed)?;
        Some((pod.pod.uid.clone(), aligned))
    });
    aligned.collect()
}

/// The pod with the devices that the kubelet lists for it.
fn align_to_listed(pod: &PodObject, listed: &[PodResources]) -> Option<align::AlignedPod> {
    let meta = &pod.meta;
    let mut listed = listed.iter();
    let found = listed.find(|one| one.name == meta.name && one.namespace == meta.namespace)?;
    Some(align::align_pod(&pod.pod, &align::allocated_devices(found)))
}

/// Whether a container of the pod requests an extended resource.
fn requests_devices(pod: &PodObject) -> bool {
    let mut resources = pod.pod.all_containers().flat_map(|one| one.limits.keys());
    resources.any(|resource| is_extended(resource.as_str()))
}
