//! The pod resources API: serves monitoring agents the CPUs, memory and devices of each pod.
//!
//! Mirrors `v1PodResourcesServer` and `containerDevicesFromResourceDeviceInstances`. The agent publishes a
//! [`PodResourcesSnapshot`] on every change; responses come from the latest one. Every device is listed by itself, once
//! for each of its NUMA nodes, and without a node if it has none (the kubelet leaves out allocatable devices with an
//! empty list of nodes).

mod client;

pub use client::{PodResourcesClient, PodResourcesError};

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use kubelet_api::pod_resources as api;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::AdvertisedDevices;
use pinfold_core::memory::MemoryBlock;
use pinfold_core::name::ResourceName;
use tonic::{Request, Response, Status};

/// The resources of a node's pods at one moment, and the node's allocatable resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodResourcesSnapshot {
    /// The active pods.
    pub pods: Vec<PodSnapshot>,
    /// The allocatable resources: CPUs and memory that are not reserved, and all devices (unhealthy ones are not
    /// listed).
    pub allocatable: HeldResources,
}

/// The resources of one pod's containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSnapshot {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its sidecars, then its containers, by name. Init containers that terminate are left out.
    pub containers: Vec<(String, HeldResources)>,
}

/// CPUs, memory and devices of a container or a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldResources {
    /// Exclusive CPUs.
    pub cpus: CpuSet,
    /// Memory on NUMA nodes.
    pub memory: Vec<MemoryBlock>,
    /// Devices with their NUMA nodes.
    pub devices: BTreeMap<ResourceName, AdvertisedDevices>,
    /// Devices of resource claims.
    pub dynamic: Vec<api::DynamicResource>,
}

/// The server of the pod resources API. Clones share the snapshot and the counters.
#[derive(Clone, Debug, Default)]
pub struct PodResourcesServer {
    latest: Arc<RwLock<Arc<PodResourcesSnapshot>>>,
    calls: Arc<CallCounters>,
}

#[derive(Debug, Default)]
struct CallCounters {
    list: AtomicU64,
    allocatable: AtomicU64,
    get: AtomicU64,
    get_failed: AtomicU64,
}

/// Counters of calls of the pod resources API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodResourcesCalls {
    /// `List`.
    pub list: u64,
    /// `GetAllocatableResources`.
    pub allocatable: u64,
    /// `Get`.
    pub get: u64,
    /// `Get` of an unknown pod.
    pub get_failed: u64,
}

impl PodResourcesServer {
    /// Serves this snapshot from now on.
    pub fn publish(&self, snapshot: PodResourcesSnapshot) {
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        *latest = Arc::new(snapshot);
    }

    /// Serves the API on a socket until the future is dropped.
    ///
    /// # Errors
    /// If connections can no longer be accepted.
    pub async fn serve(
        self,
        listener: tokio::net::UnixListener,
        peers: kubelet_api::unix::PeerLimits,
    ) -> io::Result<()> {
        let server = api::PodResourcesListerServer::new(self);
        kubelet_api::unix::serve(listener, server, peers).await
    }

    /// The number of calls since the start.
    #[must_use]
    pub fn call_counts(&self) -> PodResourcesCalls {
        let count = |calls: &AtomicU64| calls.load(Ordering::Relaxed);
        PodResourcesCalls {
            list: count(&self.calls.list),
            allocatable: count(&self.calls.allocatable),
            get: count(&self.calls.get),
            get_failed: count(&self.calls.get_failed),
        }
    }

    fn latest(&self) -> Arc<PodResourcesSnapshot> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }
}

impl api::PodResourcesLister for PodResourcesServer {
    async fn list(
        &self,
        _: Request<api::ListPodResourcesRequest>,
    ) -> Result<Response<api::ListPodResourcesResponse>, Status> {
        self.calls.list.fetch_add(1, Ordering::Relaxed);
        let pod_resources = self.latest().pods.iter().map(pod).collect();
        Ok(Response::new(api::ListPodResourcesResponse {
            pod_resources,
        }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<api::AllocatableResourcesRequest>,
    ) -> Result<Response<api::AllocatableResourcesResponse>, Status> {
        self.calls.allocatable.fetch_add(1, Ordering::Relaxed);
        let latest = self.latest();
        let mut allocatable = latest.allocatable.clone();
        for devices in allocatable.devices.values_mut() {
            devices.retain(|_, device| device.healthy);
        }
        let all = container("", &allocatable);
        Ok(Response::new(api::AllocatableResourcesResponse {
            devices: all.devices,
            cpu_ids: all.cpu_ids,
            memory: all.memory,
        }))
    }

    async fn get(
        &self,
        request: Request<api::GetPodResourcesRequest>,
    ) -> Result<Response<api::GetPodResourcesResponse>, Status> {
        self.calls.get.fetch_add(1, Ordering::Relaxed);
        let asked = request.into_inner();
        let latest = self.latest();
        let is_asked =
            |pod: &&PodSnapshot| pod.name == asked.pod_name && pod.namespace == asked.pod_namespace;
        let Some(found) = latest.pods.iter().find(is_asked) else {
            self.calls.get_failed.fetch_add(1, Ordering::Relaxed);
            let (name, namespace) = (asked.pod_name, asked.pod_namespace);
            let message = format!("pod {name} in namespace {namespace} not found");
            return Err(Status::unknown(message));
        };
        Ok(Response::new(api::GetPodResourcesResponse {
            pod_resources: Some(pod(found)),
        }))
    }
}

fn pod(pod: &PodSnapshot) -> api::PodResources {
    let containers = pod.containers.iter();
    api::PodResources {
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        containers: containers
            .map(|(name, holding)| container(name, holding))
            .collect(),
    }
}

fn container(name: &str, holding: &HeldResources) -> api::ContainerResources {
    let memory = holding.memory.iter().map(|block| api::ContainerMemory {
        memory_type: block.resource.to_string(),
        size: block.size,
        topology: topology(block.nodes.iter().map(|node| i64::from(node.get()))),
    });
    api::ContainerResources {
        name: name.to_owned(),
        devices: devices(&holding.devices),
        cpu_ids: holding
            .cpus
            .iter()
            .map(|cpu| i64::from(cpu.get()))
            .collect(),
        memory: memory.collect(),
        dynamic_resources: holding.dynamic.clone(),
    }
}

fn devices(resources: &BTreeMap<ResourceName, AdvertisedDevices>) -> Vec<api::ContainerDevices> {
    let mut listed = Vec::new();
    for (resource, devices) in resources {
        for (id, device) in devices {
            let one = |topology| api::ContainerDevices {
                resource_name: resource.to_string(),
                device_ids: vec![id.to_string()],
                topology,
            };
            match device.numa.as_deref().unwrap_or_default() {
                [] => listed.push(one(None)),
                nodes => listed.extend(nodes.iter().map(|&node| one(topology([node])))),
            }
        }
    }
    listed
}

fn topology(nodes: impl IntoIterator<Item = i64>) -> Option<api::TopologyInfo> {
    let nodes = nodes.into_iter().map(|id| api::NumaNode { id }).collect();
    Some(api::TopologyInfo { nodes })
}
