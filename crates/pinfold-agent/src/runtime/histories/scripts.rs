//! Shortened histories that failed once.

use super::Runtime::{Containerd, CriO};
use super::Step::*;
use super::played_node::PlayedNode;
use super::{Runtime, Setup, Step, play};

/// Plays a history with the runtime, with and without an API server as given.
fn holds(runtime: Runtime, api_server: bool, steps: &[Step]) {
    holds_with(
        Setup {
            runtime,
            api_server,
            takeover: false,
            koordinator: false,
        },
        steps,
    );
}

fn holds_with(setup: Setup, steps: &[Step]) {
    if let Err((at, broken)) = play(setup, steps) {
        panic!("{setup:?}, step {at}: {broken}");
    }
}

/// As [`holds`]. At the end, the running containers of a pod must have so many CPUs of their own.
fn holds_own_cpus(runtime: Runtime, api_server: bool, steps: &[Step], pod: u8, cpus: usize) {
    holds(runtime, api_server, steps);
    let mut node = PlayedNode::new(Setup {
        runtime,
        api_server,
        takeover: false,
        koordinator: false,
    });
    for step in steps {
        node.prepare(*step);
        node.step(*step);
    }
    assert_eq!(node.own_cpus(pod), cpus, "{runtime:?}, {api_server}");
}

/// Plays a history of a node that the agent takes over from the kubelet.
fn takeover_holds(steps: &[Step]) {
    for runtime in [Containerd, CriO] {
        for api_server in [false, true] {
            let setup = Setup {
                runtime,
                api_server,
                takeover: true,
                koordinator: false,
            };
            holds_with(setup, steps);
        }
    }
}

/// Starts a container from nothing.
fn container(pod: u8) -> [Step; 5] {
    [
        Watch,
        Run(pod),
        Create(pod, 0),
        Created(pod, 0),
        Start(pod, 0),
    ]
}

#[test]
fn a_completed_pod_takes_no_cpus_back_when_the_agent_or_the_runtime_restarts() {
    for runtime in [Containerd, CriO] {
        for api_server in [false, true] {
            for restart in [&[Kill, StartAgent][..], &[RestartRuntime]] {
                let steps = [
                    &container(0)[..],
                    &[Complete(0)],
                    restart,
                    &[WatchAll, Check],
                    restart,
                ];
                for koordinator in [false, true] {
                    let setup = Setup {
                        runtime,
                        api_server,
                        takeover: false,
                        koordinator,
                    };
                    holds_with(setup, &steps.concat());
                }
            }
        }
    }
}

#[test]
fn a_pod_that_ends_while_the_agent_is_down_is_released() {
    for runtime in [Containerd, CriO] {
        for end in [Complete(0), Delete(0)] {
            let steps = [
                &container(0)[..],
                &[Kill, end, StartAgent, WatchAll, Check],
                &[RemoveSandbox(0), Check],
            ];
            holds(runtime, true, &steps.concat());
            holds(runtime, false, &steps.concat());
        }
    }
}

#[test]
fn a_pod_that_ended_on_a_full_disk_before_a_kill_is_released_with_its_sandbox() {
    let setup = Setup {
        runtime: CriO,
        api_server: false,
        takeover: true,
        koordinator: true,
    };
    let ended = [Run(6), Disk(true), Delete(6), Kill, Disk(false), StartAgent];
    holds_with(setup, &[&ended[..], &[RemoveSandbox(6), Check]].concat());
}

#[test]
fn a_container_that_is_being_created_while_the_agent_connects_keeps_its_cpus() {
    for api_server in [false, true] {
        let steps = [
            WatchAll,
            Run(0),
            Create(0, 0),
            Kill,
            StartAgent,
            Run(1),
            Create(1, 0),
            Created(1, 0),
            Start(1, 0),
            Created(0, 0),
            Start(0, 0),
        ];
        holds(CriO, api_server, &steps);
    }
}

#[test]
fn a_container_whose_creation_the_agent_missed_is_adopted_before_it_starts() {
    for api_server in [false, true] {
        let steps = [
            WatchAll,
            Kill,
            Run(0),
            Create(0, 0),
            StartAgent,
            WatchAll,
            Created(0, 0),
            Start(0, 0),
        ];
        holds(CriO, api_server, &steps);
    }
}

#[test]
fn a_shared_container_that_is_being_created_gets_the_pool_that_shrank_meanwhile() {
    let steps = [
        WatchAll,
        Run(2),
        Create(2, 0),
        Run(0),
        Create(0, 0),
        Created(2, 0),
        Start(2, 0),
    ];
    holds(Containerd, true, &steps);
    holds(CriO, false, &steps);
}

#[test]
fn a_pod_keeps_its_cpus_while_its_sandbox_is_made_anew() {
    let steps = [
        &container(0)[..],
        &[WatchAll, PauseDies(0)],
        &container(1)[1..],
        &[Run(0), Create(0, 0), Created(0, 0), Start(0, 0)],
    ];
    holds(Containerd, true, &steps.concat());
}

#[test]
fn pods_keep_their_cpus_if_another_cpu_goes_offline_or_is_reserved() {
    for change in [Offline(1), Offline(2), Rules(1), Rules(2)] {
        let steps = [
            &container(0)[..],
            &container(3)[1..],
            &container(1)[1..],
            &[Exit(0, 0), Delete(0), change],
        ];
        holds(Containerd, true, &steps.concat());
    }
}

#[test]
fn the_agent_connects_on_a_full_disk_and_admits_running_pods_when_there_is_space() {
    for api_server in [false, true] {
        let steps = [
            &[Kill][..],
            &container(0),
            &[
                Disk(true),
                StartAgent,
                RestartRuntime,
                WatchAll,
                Disk(false),
                Check,
            ],
        ];
        holds_own_cpus(Containerd, api_server, &steps.concat(), 0, 2);
        holds(
            Containerd,
            api_server,
            &[&steps.concat()[..], &container(1)[1..]].concat(),
        );
    }
}

#[test]
fn a_pod_whose_sandbox_is_stopped_before_the_pods_are_listed_keeps_its_cpus() {
    for disk in [&[][..], &[Disk(true)]] {
        let steps = [
            &[WatchAll, Run(1), Kill][..],
            disk,
            &[
                StartAgent,
                PauseDies(1),
                WatchAll,
                Disk(false),
                Check,
                Run(1),
            ],
        ];
        holds(Containerd, true, &steps.concat());
    }
}

#[test]
fn pods_keep_the_kubelets_cpus_even_if_the_agent_chose_them_for_each_other_before() {
    // The kubelet takes the highest free CPUs, the agent the lowest: their choices for the pods cross.
    let steps = [
        &[WatchAll][..],
        &container(5)[1..],
        &container(1)[1..],
        &[TakeOver],
        &container(0)[1..],
        &[TakeOver, Kill, StartAgent, WatchAll],
        &container(6)[1..],
    ];
    takeover_holds(&steps.concat());
}

#[test]
fn a_container_of_a_pinned_pod_that_is_made_anew_after_the_takeover_gets_its_cpus_again() {
    let again = [
        Exit(0, 0),
        RemoveContainer(0, 0),
        Create(0, 0),
        Created(0, 0),
        Start(0, 0),
    ];
    let steps = [
        &[WatchAll][..],
        &container(0)[1..],
        &[TakeOver, TakeOver],
        &again,
        &container(1)[1..],
        &[Kill, StartAgent, WatchAll, Check],
    ];
    takeover_holds(&steps.concat());
}

#[test]
fn a_takeover_on_a_full_disk_leaves_the_kubelets_cpus_alone() {
    let steps = [
        &[WatchAll][..],
        &container(0)[1..4],
        &[Disk(true), TakeOver, Start(0, 0), Disk(false), Check],
        &container(5)[1..],
        &[Disk(true), RestartRuntime, PauseDies(5), Disk(false), Check],
    ];
    takeover_holds(&steps.concat());
}

#[test]
fn pods_keep_their_cpus_if_cpus_come_back_online_or_the_machine_boots_with_other_memory() {
    let steps = [
        &[WatchAll, Rules(2), Run(6), Run(5)][..],
        &container(3)[1..],
        &[Offline(3), Offline(2), Offline(0)],
    ];
    holds(CriO, true, &steps.concat());
    for memory in [1, 2, 0] {
        let steps = [
            &container(0)[..],
            &container(3)[1..],
            &[Kill, Reboot(memory), StartAgent],
        ];
        holds(Containerd, true, &steps.concat());
    }
}

#[test]
fn without_a_cpu_manager_containers_get_all_cpus_and_their_quota_back_whenever_the_agent_learns_of_it()
 {
    for restart in [&[][..], &[Kill, StartAgent]] {
        let steps = [
            &container(0)[..],
            &container(2)[1..],
            &[Kill, Rules(4), StartAgent],
            restart,
            &[Resize(0, 0), Shrink(2, 0)],
            &[Rules(0)],
            restart,
            &container(1)[1..],
        ];
        for runtime in [Containerd, CriO] {
            holds(runtime, true, &steps.concat());
            holds(runtime, false, &steps.concat());
        }
    }
}

#[test]
fn a_resize_is_rejected_or_applied() {
    let steps = [
        &container(0)[..],
        &container(2)[1..],
        &[Resize(0, 0), Shrink(0, 0), Resize(2, 0), Shrink(2, 0)],
        &[Rules(4), Resize(0, 0), Shrink(0, 0), Resize(2, 0)],
    ];
    holds(Containerd, true, &steps.concat());
    holds(CriO, false, &steps.concat());
}

#[test]
fn a_container_of_a_sandbox_that_the_agent_never_saw_is_admitted_with_its_pod() {
    for api_server in [false, true] {
        let steps = [
            WatchAll,
            RunUnseen(0),
            Create(0, 0),
            Created(0, 0),
            Start(0, 0),
        ];
        holds_own_cpus(CriO, api_server, &steps, 0, 2);
        let steps = [
            &steps[..],
            &container(1)[1..],
            &[Complete(0), RemoveSandbox(0)],
        ]
        .concat();
        holds(Containerd, api_server, &steps);
    }
}

#[test]
fn a_pod_that_the_api_server_deletes_while_it_runs_keeps_its_cpus_until_it_stops() {
    for restart in [&[][..], &[Kill, StartAgent], &[RestartRuntime]] {
        let steps = [
            &container(0)[..],
            &[Vanish(0), WatchAll, Check],
            restart,
            &container(1)[1..],
            &[Delete(0), WatchAll, Check],
        ];
        holds(Containerd, true, &steps.concat());
        holds(CriO, true, &steps.concat());
    }
}

#[test]
fn a_running_container_gets_no_device_when_the_spec_of_its_pod_arrives() {
    let steps = [
        &container(3)[1..],
        &[WatchAll, Check],
        &[Kill, StartAgent, WatchAll, Check],
    ];
    holds(Containerd, true, &steps.concat());
    holds(CriO, true, &steps.concat());
}

#[test]
fn a_container_of_a_pinned_pod_that_starts_while_the_agent_is_down_gets_the_kubelets_cpus() {
    let steps = [
        Run(5),
        TakeOver,
        Kill,
        Create(5, 0),
        Created(5, 0),
        Start(5, 0),
        StartAgent,
        WatchAll,
        Check,
        RestartRuntime,
        TakeOver,
        RestartRuntime,
    ];
    takeover_holds(&steps);
}

#[test]
fn a_pod_whose_sandbox_is_removed_on_a_full_disk_is_released_when_there_is_space() {
    let steps = [
        Watch,
        Run(3),
        PauseDies(3),
        Disk(true),
        RemoveSandbox(3),
        Disk(false),
        Check,
        Run(3),
    ];
    holds(Containerd, true, &steps);
}

#[test]
fn pods_whose_sandbox_is_made_anew_during_the_takeover_keep_the_kubelets_cpus() {
    let histories: [&[Step]; 4] = [
        &[
            WatchAll,
            Run(6),
            PauseDies(6),
            Disk(true),
            Run(0),
            Run(4),
            TakeOver,
            Run(6),
            Disk(false),
            WatchAll,
            Check,
        ],
        &[
            WatchAll,
            Run(1),
            Run(4),
            Disk(true),
            TakeOver,
            PauseDies(1),
            Disk(false),
            WatchAll,
            Check,
            Run(1),
        ],
        &[
            Run(4),
            PauseDies(4),
            TakeOver,
            WatchAll,
            Run(4),
            Run(5),
            RestartRuntime,
            Kill,
            StartAgent,
        ],
        &[
            WatchAll,
            Run(4),
            Run(5),
            Disk(true),
            TakeOver,
            PauseDies(4),
            Disk(false),
            Check,
            Run(4),
            Create(4, 0),
            Created(4, 0),
            Start(4, 0),
        ],
    ];
    histories.into_iter().for_each(takeover_holds);
}

#[test]
fn pods_keep_their_cpus_if_the_memory_manager_is_turned_off_or_on() {
    let other_cpus = [&container(4)[..], &container(0), &[Offline(2), Offline(0)]].concat();
    for runtime in [Containerd, CriO] {
        let steps = [
            &[WatchAll],
            &other_cpus[..],
            &[Rules(1), Rules(5), Kill, StartAgent, Rules(0), WatchAll],
        ];
        holds(runtime, true, &steps.concat());
        holds(
            runtime,
            true,
            &[WatchAll, Run(4), Run(1), Offline(2), Rules(5)],
        );
        holds(
            runtime,
            true,
            &[WatchAll, Run(0), Run(4), Run(6), Rules(1), Rules(5)],
        );
    }
}
