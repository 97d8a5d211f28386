//! The examples of the page's menu: the demo, and those of `examples/`.

use serde::Serialize;

use super::question::{PodText, Question};

/// One example.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    name: &'static str,
    title: &'static str,
    question: Question,
}

/// A file of an example.
macro_rules! file {
    ($($path:literal),+) => {
        PodText {
            name: concat!($($path),+).rsplit('/').next().unwrap_or_default().to_owned(),
            text: include_str!(concat!("../../../../examples/", $($path),+)).to_owned(),
        }
    };
}

/// All examples; the first one is shown to a new visitor.
pub(super) fn all() -> Vec<Example> {
    let example = |name, title, question| Example {
        name,
        title,
        question,
    };
    let on = |machine: &str, config: &str, pods: Vec<PodText>| Question {
        machine: machine.to_owned(),
        config: config.to_owned(),
        pods,
        ..Question::default()
    };
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter_map(|line| line.split_once(": "));
        lines
            .map(|(resource, devices)| format!("{resource}={}", devices.trim_matches('"')))
            .collect()
    };
    vec![
        example(
            "demo",
            "A GPU server: one pod is rejected",
            on(
                "dgx-h100",
                "",
                vec![PodText {
                    name: "pods.yaml".to_owned(),
                    text: include_str!("../commands/demo/pods.yaml").to_owned(),
                }],
            ),
        ),
        example(
            "gpu-training",
            "GPU training with InfiniBand",
            Question {
                devices: lines(include_str!(
                    "../../../../examples/gpu-training/devices.yaml"
                )),
                ..on(
                    "dgx-h100",
                    include_str!("../../../../examples/gpu-training/kubelet.yaml"),
                    vec![file!("gpu-training/pods.yaml")],
                )
            },
        ),
        example(
            "fragmented-node",
            "A fragmented node",
            Question {
                steps: include_str!("../../../../examples/fragmented-node/steps.yaml").to_owned(),
                ..on(
                    "2 sockets, 8 cores",
                    include_str!("../../../../examples/fragmented-node/kubelet.yaml"),
                    vec![
                        file!("fragmented-node/pods.yaml"),
                        file!("fragmented-node/big.yaml"),
                    ],
                )
            },
        ),
        example(
            "dpdk",
            "DPDK: CPUs, hugepages and a virtual function",
            Question {
                devices: lines(include_str!("../../../../examples/dpdk/devices.yaml")),
                ..on(
                    "2 sockets, 16 cores, mem=64Gi, hugepages-1Gi=16",
                    include_str!("../../../../examples/dpdk/kubelet.yaml"),
                    vec![file!("dpdk/pods.yaml")],
                )
            },
        ),
        example(
            "latency-beside-batch",
            "Latency-critical beside batch",
            on(
                "1 socket, 4 l3, 8 cores",
                include_str!("../../../../examples/latency-beside-batch/kubelet.yaml"),
                vec![file!("latency-beside-batch/pods.yaml")],
            ),
        ),
        example(
            "sidecars-and-init",
            "Sidecars, init containers and a restart",
            Question {
                steps: include_str!("../../../../examples/sidecars-and-init/steps.yaml").to_owned(),
                ..on(
                    "2 sockets, 8 cores, mem=32Gi",
                    include_str!("../../../../examples/sidecars-and-init/kubelet.yaml"),
                    vec![file!("sidecars-and-init/pods.yaml")],
                )
            },
        ),
        example(
            "helm-chart",
            "The output of Helm",
            on(
                "2 sockets, 8 cores",
                "",
                vec![file!("helm-chart/rendered.yaml")],
            ),
        ),
        example(
            "replica-capacity",
            "Running pods, and one encoder more",
            on(
                "2 sockets, 16 cores, smt2",
                "",
                vec![
                    file!("replica-capacity/running.yaml"),
                    file!("replica-capacity/encoder.yaml"),
                ],
            ),
        ),
        example(
            "koordinator",
            "Under Koordinator",
            Question {
                decider: "koordinator".to_owned(),
                ..on(
                    "2 sockets, 4 cores, smt2",
                    "",
                    vec![file!("koordinator-cluster/pods.yaml")],
                )
            },
        ),
    ]
}
