//! The pod resources server, called by our client.

use kubelet_api::pod_resources::{
    AllocatableResourcesRequest, ContainerDevices, GetPodResourcesRequest, ListPodResourcesRequest,
    NumaNode, PodResourcesListerClient, TopologyInfo,
};
use kubelet_api::unix::{self, PeerLimits};
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_devices::pod_resources::{
    HeldResources, PodResourcesServer, PodResourcesSnapshot, PodSnapshot,
};
use tokio::net::UnixListener;

fn holding() -> HeldResources {
    let device = |numa: Option<Vec<i64>>, healthy| Device { numa, healthy };
    let devices = AdvertisedDevices::from([
        ("both".into(), device(Some(vec![0, 1]), true)),
        ("nowhere".into(), device(Some(vec![]), true)),
        ("sick".into(), device(Some(vec![0]), false)),
    ]);
    HeldResources {
        cpus: "2-3".parse().expect("a list"),
        devices: [("example.com/gpu".into(), devices)].into(),
        ..HeldResources::default()
    }
}

fn listed(id: &str, node: Option<i64>) -> ContainerDevices {
    ContainerDevices {
        resource_name: "example.com/gpu".to_owned(),
        device_ids: vec![id.to_owned()],
        topology: node.map(|id| TopologyInfo {
            nodes: vec![NumaNode { id }],
        }),
    }
}

#[test]
fn all_three_calls_are_answered_from_the_latest_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kubelet.sock");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let resources = PodResourcesServer::default();
        let listener = UnixListener::bind(&socket).expect("a socket");
        let user = rustix::process::geteuid().as_raw();
        let peers = PeerLimits {
            user,
            connections: 4,
            calls: 4,
        };
        tokio::spawn(resources.clone().serve(listener, peers));
        let channel = unix::connect(&socket).await.expect("it listens");
        let mut client = PodResourcesListerClient::new(channel);

        let before = client
            .list(ListPodResourcesRequest {})
            .await
            .expect("an answer");
        assert_eq!(before.into_inner().pod_resources, []);

        resources.publish(PodResourcesSnapshot {
            pods: vec![PodSnapshot {
                name: "web".to_owned(),
                namespace: "default".to_owned(),
                containers: vec![("main".to_owned(), holding())],
            }],
            allocatable: holding(),
        });
        let all = client
            .list(ListPodResourcesRequest {})
            .await
            .expect("an answer")
            .into_inner();
        let container = &all.pod_resources[0].containers[0];
        assert_eq!(container.cpu_ids, [2, 3]);
        let healthy = [
            listed("both", Some(0)),
            listed("both", Some(1)),
            listed("nowhere", None),
        ];
        assert_eq!(container.devices[..3], healthy);
        assert_eq!(container.devices[3..], [listed("sick", Some(0))]);

        let allocatable = client
            .get_allocatable_resources(AllocatableResourcesRequest {})
            .await;
        assert_eq!(
            allocatable.expect("an answer").into_inner().devices,
            healthy
        );

        let ask = |name: &str| GetPodResourcesRequest {
            pod_name: name.to_owned(),
            pod_namespace: "default".to_owned(),
        };
        let one = client
            .get(ask("web"))
            .await
            .expect("it is there")
            .into_inner();
        assert_eq!(one.pod_resources.as_ref(), all.pod_resources.first());
        let missing = client.get(ask("db")).await.expect_err("it is not there");
        assert_eq!(missing.message(), "pod db in namespace default not found");
    });
}
