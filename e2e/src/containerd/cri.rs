//! As much of a CRI client as the suites need: the kubelet's side of a container runtime.

use std::path::Path;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::messages::{
    ContainerConfig, ContainerFilter, ContainerList, ContainerMetadata, ContainerSecurity,
    ContainerStatusAnswer, CreateContainer, Exec, ExecOutput, Id, Image, LinuxContainer,
    ListContainers, NamespaceOption, Nothing, PodList, PodSecurity, RunPod, StopContainer,
    UpdateResources,
};

pub(crate) use super::messages::{HugePages, LinuxPod, PodConfig, PodMetadata, Resources};

/// The network namespace of the node, which needs no network plugin, and a process namespace for every container, as the
/// kubelet asks for.
const NAMESPACES: NamespaceOption = NamespaceOption { network: 2, pid: 1 };

/// A running container, as CRI lists it.
const RUNNING: i32 = 1;

/// What containers do that are there to be looked at.
pub(crate) const FOREVER: [&str; 3] = ["/bin/busybox", "sleep", "1000000"];

/// A pod that the client made.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) id: String,
    config: PodConfig,
}

/// A connection to a container runtime.
pub(crate) struct Cri {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
    cgroup: String,
    image: String,
    made: u32,
}

impl Cri {
    pub(crate) fn connect(socket: &Path, cgroup: &str, image: &str) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let address = format!("unix://{}", socket.display());
        let endpoint = Endpoint::from_shared(address).map_err(|error| error.to_string())?;
        let _inside = runtime.enter();
        let channel = endpoint.timeout(super::PATIENCE).connect_lazy();
        drop(_inside);
        Ok(Cri {
            runtime,
            channel,
            cgroup: cgroup.to_owned(),
            image: image.to_owned(),
            made: 0,
        })
    }

    fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let path = format!("/runtime.v1.RuntimeService/{method}");
        let path = PathAndQuery::try_from(path).map_err(|error| error.to_string())?;
        let mut client = Grpc::new(self.channel.clone());
        self.runtime.block_on(async {
            let problem = |error: &dyn std::fmt::Display| format!("{method}: {error}");
            client.ready().await.map_err(|error| problem(&error))?;
            let answer = client
                .unary(tonic::Request::new(request), path, ProstCodec::default())
                .await;
            let answer: tonic::Response<A> = answer.map_err(|error| problem(&error.message()))?;
            Ok(answer.into_inner())
        })
    }

    /// Whether the runtime answers at all.
    pub(crate) fn is_ready(&self) -> bool {
        self.call::<_, Nothing>("Status", Nothing {}).is_ok()
    }

    /// Runs a pod of no particular kind.
    pub(crate) fn run_pod(&mut self, annotations: &[(&str, &str)]) -> Result<Pod, String> {
        self.made += 1;
        let name = format!("pod-{}", self.made);
        let texts = annotations
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.run(PodConfig {
            metadata: Some(PodMetadata {
                uid: format!("{name}-uid"),
                name,
                namespace: "e2e".to_owned(),
                attempt: 0,
            }),
            annotations: texts.collect(),
            linux: Some(LinuxPod {
                cgroup_parent: self.cgroup.clone(),
                ..LinuxPod::default()
            }),
            ..PodConfig::default()
        })
    }

    /// Runs a pod, on the node's network.
    pub(crate) fn run(&self, mut config: PodConfig) -> Result<Pod, String> {
        config.linux.get_or_insert_default().security = Some(PodSecurity {
            namespaces: Some(NAMESPACES),
        });
        let request = RunPod {
            config: Some(config.clone()),
        };
        let made = self.call("RunPodSandbox", request);
        let Id { id } = made.inspect_err(|_| drop(self.clear_away(config.metadata.as_ref())))?;
        Ok(Pod { id, config })
    }

    /// Removes what is left of a pod that could not start: a busy runtime leaves that, and its name, to the kubelet.
    fn clear_away(&self, failed: Option<&PodMetadata>) -> Result<(), String> {
        let list: PodList = self.call("ListPodSandbox", Nothing {})?;
        let left = list
            .pods
            .iter()
            .filter(|pod| pod.metadata.as_ref() == failed);
        let removed = left.map(|pod| self.remove_pod(&pod.id));
        removed.fold(Ok(()), Result::and)
    }

    /// Creates a container that does nothing for a long time.
    pub(crate) fn create(&self, pod: &Pod) -> Result<String, String> {
        self.create_as(pod, "main", 0, Resources::default(), &FOREVER)
    }

    /// Creates the so-manieth container of a name, which may use this and does that.
    pub(crate) fn create_as(
        &self,
        pod: &Pod,
        name: &str,
        attempt: u32,
        resources: Resources,
        command: &[&str],
    ) -> Result<String, String> {
        let name = name.to_owned();
        let request = CreateContainer {
            pod: pod.id.clone(),
            config: Some(ContainerConfig {
                metadata: Some(ContainerMetadata { name, attempt }),
                image: Some(Image {
                    name: self.image.clone(),
                    user_specified_image: self.image.clone(),
                }),
                command: command.iter().map(|&word| word.to_owned()).collect(),
                linux: Some(LinuxContainer {
                    resources: Some(resources),
                    security: Some(ContainerSecurity {
                        namespaces: Some(NAMESPACES),
                    }),
                }),
            }),
            pod_config: Some(pod.config.clone()),
        };
        let Id { id } = self.call("CreateContainer", request)?;
        Ok(id)
    }

    /// Creates and starts one.
    pub(crate) fn start(&self, pod: &Pod) -> Result<String, String> {
        let id = self.create(pod)?;
        self.start_container(&id)?;
        Ok(id)
    }

    /// Starts a container that was created.
    pub(crate) fn start_container(&self, id: &str) -> Result<(), String> {
        let request = Id { id: id.to_owned() };
        self.call::<_, Nothing>("StartContainer", request)?;
        Ok(())
    }

    /// Ends a container at once.
    pub(crate) fn stop_container(&self, id: &str) -> Result<(), String> {
        let request = StopContainer {
            container: id.to_owned(),
            timeout: 0,
        };
        self.call::<_, Nothing>("StopContainer", request)?;
        Ok(())
    }

    /// Removes a container, which may still run.
    pub(crate) fn remove_container(&self, id: &str) -> Result<(), String> {
        let request = Id { id: id.to_owned() };
        self.call::<_, Nothing>("RemoveContainer", request)?;
        Ok(())
    }

    /// Whether a container runs.
    pub(crate) fn is_running(&self, id: &str) -> Result<bool, String> {
        let request = Id { id: id.to_owned() };
        let answer: ContainerStatusAnswer = self.call("ContainerStatus", request)?;
        Ok(answer.status.is_some_and(|status| status.state == RUNNING))
    }

    /// What the kubelet does when a container's CPUs change.
    pub(crate) fn update(&self, container: &str, cpus: &str) -> Result<(), String> {
        self.update_resources(
            container,
            Resources {
                cpuset_cpus: cpus.to_owned(),
                ..Resources::default()
            },
        )
    }

    /// What the kubelet does when a container's resources change.
    pub(crate) fn update_resources(
        &self,
        container: &str,
        resources: Resources,
    ) -> Result<(), String> {
        let request = UpdateResources {
            container: container.to_owned(),
            linux: Some(resources),
        };
        self.call::<_, Nothing>("UpdateContainerResources", request)?;
        Ok(())
    }

    /// The output of a command inside of a container.
    pub(crate) fn exec(&self, container: &str, script: &str) -> Result<String, String> {
        let request = Exec {
            container: container.to_owned(),
            command: ["/bin/busybox", "sh", "-c", script]
                .map(str::to_owned)
                .into(),
            timeout: 30,
        };
        let answer: ExecOutput = self.call("ExecSync", request)?;
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    }

    /// Removes a pod: its containers first, as the kubelet does. containerd 2.3 locks itself out of NRI for good if a
    /// plugin connects while it removes a pod together with its containers.
    pub(crate) fn remove(&self, pod: &Pod) -> Result<(), String> {
        self.remove_pod(&pod.id)
    }

    /// Removes every pod there is.
    pub(crate) fn remove_everything(&self) -> Result<(), String> {
        let list: PodList = self.call("ListPodSandbox", Nothing {})?;
        let removed = list.pods.iter().map(|pod| self.remove_pod(&pod.id));
        removed.fold(Ok(()), Result::and)
    }

    fn remove_pod(&self, id: &str) -> Result<(), String> {
        self.stop_pod(id)?;
        let filter = Some(ContainerFilter { pod: id.to_owned() });
        let list: ContainerList = self.call("ListContainers", ListContainers { filter })?;
        for container in list.containers {
            self.remove_container(&container.id)?;
        }
        let request = Id { id: id.to_owned() };
        self.call::<_, Nothing>("RemovePodSandbox", request)?;
        Ok(())
    }

    /// Ends all containers of a pod.
    pub(crate) fn stop_pod(&self, id: &str) -> Result<(), String> {
        let request = Id { id: id.to_owned() };
        self.call::<_, Nothing>("StopPodSandbox", request)?;
        Ok(())
    }
}
