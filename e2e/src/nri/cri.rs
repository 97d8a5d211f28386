//! As much of a CRI client as the suite needs: the kubelet's side of a container runtime.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// Declares messages of CRI with the fields that are used here.
macro_rules! messages {
    ($($name:ident { $($(#[$attribute:meta])+ $field:ident: $kind:ty,)* })*) => {$(
        #[derive(Clone, PartialEq, prost::Message)]
        pub(crate) struct $name {
            $($(#[$attribute])+ pub(crate) $field: $kind,)*
        }
    )*};
}

messages! {
    PodMetadata {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] uid: String,
        #[prost(string, tag = "3")] namespace: String,
    }
    NamespaceOption {
        #[prost(int32, tag = "1")] network: i32,
    }
    PodSecurity {
        #[prost(message, optional, tag = "1")] namespaces: Option<NamespaceOption>,
    }
    LinuxPod {
        #[prost(string, tag = "1")] cgroup_parent: String,
        #[prost(message, optional, tag = "2")] security: Option<PodSecurity>,
    }
    PodConfig {
        #[prost(message, optional, tag = "1")] metadata: Option<PodMetadata>,
        #[prost(btree_map = "string, string", tag = "7")] annotations: BTreeMap<String, String>,
        #[prost(message, optional, tag = "8")] linux: Option<LinuxPod>,
    }
    RunPod {
        #[prost(message, optional, tag = "1")] config: Option<PodConfig>,
    }
    Name {
        #[prost(string, tag = "1")] name: String,
    }
    ContainerConfig {
        #[prost(message, optional, tag = "1")] metadata: Option<Name>,
        #[prost(message, optional, tag = "2")] image: Option<Name>,
        #[prost(string, repeated, tag = "3")] command: Vec<String>,
    }
    CreateContainer {
        #[prost(string, tag = "1")] pod: String,
        #[prost(message, optional, tag = "2")] config: Option<ContainerConfig>,
        #[prost(message, optional, tag = "3")] pod_config: Option<PodConfig>,
    }
    Resources {
        #[prost(string, tag = "6")] cpuset_cpus: String,
    }
    UpdateResources {
        #[prost(string, tag = "1")] container: String,
        #[prost(message, optional, tag = "2")] linux: Option<Resources>,
    }
    Exec {
        #[prost(string, tag = "1")] container: String,
        #[prost(string, repeated, tag = "2")] command: Vec<String>,
        #[prost(int64, tag = "3")] timeout: i64,
    }
    ExecOutput {
        #[prost(bytes = "vec", tag = "1")] stdout: Vec<u8>,
    }
    Id {
        #[prost(string, tag = "1")] id: String,
    }
    Nothing {}
}

/// The network namespace of the node: needs no network plugin.
const NODE: i32 = 2;

/// A pod that the client made.
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
        let channel = endpoint.timeout(Duration::from_secs(60)).connect_lazy();
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

    /// Runs a pod on the node's network.
    pub(crate) fn run_pod(&mut self, annotations: &[(&str, &str)]) -> Result<Pod, String> {
        self.made += 1;
        let name = format!("pod-{}", self.made);
        let config = PodConfig {
            metadata: Some(PodMetadata {
                uid: format!("{name}-uid"),
                name,
                namespace: "e2e".to_owned(),
            }),
            annotations: annotations
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            linux: Some(LinuxPod {
                cgroup_parent: self.cgroup.clone(),
                security: Some(PodSecurity {
                    namespaces: Some(NamespaceOption { network: NODE }),
                }),
            }),
        };
        let request = RunPod {
            config: Some(config.clone()),
        };
        let Id { id } = self.call("RunPodSandbox", request)?;
        Ok(Pod { id, config })
    }

    /// Creates a container that does nothing for a long time.
    pub(crate) fn create(&self, pod: &Pod) -> Result<String, String> {
        let named = |name: &str| {
            Some(Name {
                name: name.to_owned(),
            })
        };
        let request = CreateContainer {
            pod: pod.id.clone(),
            config: Some(ContainerConfig {
                metadata: named("main"),
                image: named(&self.image),
                command: ["/bin/busybox", "sleep", "1000000"]
                    .map(str::to_owned)
                    .into(),
            }),
            pod_config: Some(pod.config.clone()),
        };
        let Id { id } = self.call("CreateContainer", request)?;
        Ok(id)
    }

    /// Creates and starts one.
    pub(crate) fn start(&self, pod: &Pod) -> Result<String, String> {
        let id = self.create(pod)?;
        let request = Id { id: id.clone() };
        self.call::<_, Nothing>("StartContainer", request)?;
        Ok(id)
    }

    /// What the kubelet does when a container's resources change.
    pub(crate) fn update(&self, container: &str, cpus: &str) -> Result<(), String> {
        let request = UpdateResources {
            container: container.to_owned(),
            linux: Some(Resources {
                cpuset_cpus: cpus.to_owned(),
            }),
        };
        self.call::<_, Nothing>("UpdateContainerResources", request)?;
        Ok(())
    }

    /// What a command says inside of a container.
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

    /// Removes a pod with its containers.
    pub(crate) fn remove(&self, pod: &Pod) -> Result<(), String> {
        for method in ["StopPodSandbox", "RemovePodSandbox"] {
            let request = Id { id: pod.id.clone() };
            self.call::<_, Nothing>(method, request)?;
        }
        Ok(())
    }
}
