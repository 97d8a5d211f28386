//! A session with a runtime: from registration to the end.

use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::fake::{Recorder, container, pair, pod};
use nri::api::{
    ContainerAdjustment, ContainerRequest, ContainerUpdate, CreateContainerResponse, Empty, Event,
    Events, PodSandbox, PodSandboxRequest, StateChangeEvent, StopContainerResponse,
    SynchronizeRequest, UpdateContainerRequest, UpdateContainerResponse,
    ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
};
use nri::ttrpc::{Code, MAX_CALLS};
use nri::{EventError, SessionError};

fn about(pod: PodSandbox) -> ContainerRequest {
    ContainerRequest {
        pod: Some(pod),
        container: Some(container("c")),
    }
}

#[test]
fn a_plugin_is_registered_configured_synchronized_and_then_receives_events() {
    let recorder = Recorder {
        wanted: Event::CreateContainer.into(),
        on_create: Box::new(|_, _| Ok(ContainerAdjustment::new().cpus("1").into())),
        ..Recorder::default()
    };
    let seen = Arc::clone(&recorder.seen);
    let (mut runtime, running) = pair(recorder);
    let registered = runtime.register();
    assert_eq!(
        (&*registered.plugin_name, &*registered.plugin_idx),
        ("recorder", "07")
    );
    assert_eq!(runtime.configure("containerd", "1.7.24").unwrap(), 0b1000);
    runtime.synchronize(&SynchronizeRequest::default());
    let created: CreateContainerResponse =
        runtime.call("CreateContainer", &about(pod("p"))).unwrap();
    assert_eq!(created.adjust, Some(ContainerAdjustment::new().cpus("1")));
    let _: Empty = runtime.call("Shutdown", &Empty {}).unwrap();
    drop(runtime);
    running.end().unwrap();
    let expected = [
        "configure containerd setting = 1",
        "synchronize 0 0",
        "create p c",
        "shutdown",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn a_synchronization_in_several_messages_is_passed_to_the_plugin_at_once() {
    let recorder = Recorder {
        updates: vec![ContainerUpdate::new("a").cpus("0")],
        ..Recorder::default()
    };
    let seen = Arc::clone(&recorder.seen);
    let (mut runtime, running) = pair(recorder);
    runtime.register();
    runtime.configure("containerd", "v2.2.1").unwrap();
    for (pods, containers) in [(3, 0), (0, 2), (1, 1)] {
        let part = SynchronizeRequest {
            pods: vec![pod("p"); pods],
            containers: vec![container("c"); containers],
            more: true,
        };
        let answer = runtime.synchronize(&part);
        assert!(answer.more && answer.update.is_empty());
        assert!(!running.handle.state().is_connected());
    }
    let last = SynchronizeRequest {
        pods: Vec::new(),
        containers: vec![container("d")],
        more: false,
    };
    let answer = runtime.synchronize(&last);
    assert!(!answer.more);
    assert_eq!(answer.update, [ContainerUpdate::new("a").cpus("0")]);
    drop(runtime);
    running.end().unwrap();
    assert_eq!(seen.lock().unwrap()[1], "synchronize 4 4");
}

#[test]
fn messages_of_three_megabytes_go_both_ways() {
    let recorder = Recorder {
        on_create: Box::new(|pod, _| {
            let text = pod.annotations["large"].clone();
            Ok(ContainerAdjustment::new().env("LARGE", text).into())
        }),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    let text = "x".repeat(3 << 20);
    let mut large = pod("p");
    large.annotations.insert("large".to_owned(), text.clone());
    let created: CreateContainerResponse = runtime.call("CreateContainer", &about(large)).unwrap();
    assert!(created.adjust.unwrap().env[0].value == text);
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn a_too_large_response_fails_the_request_and_not_the_session() {
    let recorder = Recorder {
        on_create: Box::new(|_, _| {
            let text = "x".repeat(5 << 20);
            Ok(ContainerAdjustment::new().env("LARGE", text).into())
        }),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    let outcome = runtime.call::<CreateContainerResponse>("CreateContainer", &about(pod("p")));
    assert_eq!(outcome.unwrap_err().code(), Code::ResourceExhausted);
    let _: Empty = runtime.call("RemoveContainer", &about(pod("p"))).unwrap();
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn old_and_new_event_formats_call_the_same_methods() {
    let recorder = Recorder::default();
    let seen = Arc::clone(&recorder.seen);
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    let table = [
        (Event::RunPodSandbox, "RunPodSandbox", "run p"),
        (Event::StopPodSandbox, "StopPodSandbox", "stop-pod p"),
        (Event::RemovePodSandbox, "RemovePodSandbox", "remove-pod p"),
        (
            Event::PostUpdatePodSandbox,
            "PostUpdatePodSandbox",
            "post-update-pod p",
        ),
        (
            Event::PostCreateContainer,
            "PostCreateContainer",
            "post-create p c",
        ),
        (Event::StartContainer, "StartContainer", "start p c"),
        (
            Event::PostStartContainer,
            "PostStartContainer",
            "post-start p c",
        ),
        (
            Event::PostUpdateContainer,
            "PostUpdateContainer",
            "post-update p c",
        ),
        (Event::RemoveContainer, "RemoveContainer", "remove p c"),
    ];
    for (event, method, expected) in table {
        seen.lock().unwrap().clear();
        let change = StateChangeEvent {
            event: event.into(),
            pod: Some(pod("p")),
            container: Some(container("c")),
        };
        let _: Empty = runtime.call("StateChange", &change).unwrap();
        let _: Empty = runtime.call(method, &about(pod("p"))).unwrap();
        assert_eq!(*seen.lock().unwrap(), [expected, expected]);
    }
    seen.lock().unwrap().clear();
    let _: Empty = runtime
        .call(
            "RunPodSandbox",
            &PodSandboxRequest {
                pod: Some(pod("q")),
            },
        )
        .unwrap();
    let from_the_future = StateChangeEvent {
        event: 99,
        ..StateChangeEvent::default()
    };
    let _: Empty = runtime.call("StateChange", &from_the_future).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["run q"]);
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn responses_with_content_reach_the_runtime() {
    let updates = vec![ContainerUpdate::new("other").mems("0-1")];
    let recorder = Recorder {
        updates: updates.clone(),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    let request = UpdateContainerRequest {
        pod: Some(pod("p")),
        container: Some(container("c")),
        linux_resources: None,
    };
    let updated: UpdateContainerResponse = runtime.call("UpdateContainer", &request).unwrap();
    assert_eq!(updated.update, updates);
    let stopped: StopContainerResponse = runtime.call("StopContainer", &about(pod("p"))).unwrap();
    assert_eq!(stopped.update, updates);
    for (name, reject) in [("good", false), ("rejected", true)] {
        let request = ValidateContainerAdjustmentRequest {
            pod: Some(PodSandbox {
                name: name.to_owned(),
                ..PodSandbox::default()
            }),
            container: Some(container("c")),
            ..ValidateContainerAdjustmentRequest::default()
        };
        let verdict: ValidateContainerAdjustmentResponse = runtime
            .call("ValidateContainerAdjustment", &request)
            .unwrap();
        assert_eq!((verdict.reject, verdict.reason == "no"), (reject, reject));
    }
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn a_plugin_error_fails_the_request_with_its_reason_and_the_session_continues() {
    let recorder = Recorder {
        on_create: Box::new(|_, _| Err(EventError::new("no CPU left"))),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    let rejected = runtime.call::<CreateContainerResponse>("CreateContainer", &about(pod("p")));
    let status = rejected.unwrap_err();
    assert_eq!(
        (status.code(), &*status.message),
        (Code::Unknown, "no CPU left")
    );
    let table = [
        (
            "CreateContainer",
            ContainerRequest::default(),
            Code::InvalidArgument,
        ),
        ("NoSuchMethod", about(pod("p")), Code::Unimplemented),
        (
            "StopContainer",
            ContainerRequest {
                pod: Some(pod("p")),
                container: None,
            },
            Code::InvalidArgument,
        ),
    ];
    for (method, request, code) in table {
        let status = runtime.call::<Empty>(method, &request).unwrap_err();
        assert_eq!(status.code(), code, "{method}");
    }
    let _: Empty = runtime.call("RemoveContainer", &about(pod("p"))).unwrap();
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn events_that_a_runtime_does_not_support_are_not_subscribed_to() {
    let old = Events::SINCE_THE_BEGINNING.mask();
    let all = Events::ALL.mask();
    let table = [
        ("containerd", "1.7.24~ds1", old),
        ("containerd", "v2.1.9", old),
        ("containerd", "v2.2.0", all),
        ("containerd", "2.10.0", all),
        ("cri-o", "1.33.8", old),
        ("cri-o", "v1.34.0", 0x1fff),
        ("another", "9.9.9", old),
        ("containerd", "", old),
    ];
    for (name, version, expected) in table {
        let (mut runtime, running) = pair(Recorder::default());
        runtime.register();
        assert_eq!(
            runtime.configure(name, version),
            Ok(expected),
            "{name} {version}"
        );
        drop(runtime);
        running.end().unwrap();
    }
}

#[test]
fn subscribing_only_to_unsupported_events_fails_instead_of_subscribing_to_all() {
    for wanted in [Events::NONE, Event::ValidateContainerAdjustment.into()] {
        let (mut runtime, running) = pair(Recorder {
            wanted,
            ..Recorder::default()
        });
        runtime.register();
        let status = runtime.configure("containerd", "1.7.24").unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(matches!(running.end(), Err(SessionError::Rejected { .. })));
    }
}

#[test]
fn a_plugin_may_reject_a_runtime() {
    let (mut runtime, running) = pair(Recorder::default());
    runtime.register();
    let status = runtime.configure("unwanted", "1").unwrap_err();
    assert_eq!(status.message, "not with this runtime");
    let problem = running.end().unwrap_err();
    assert_eq!(
        problem.to_string(),
        "Configure failed: not with this runtime"
    );
}

#[test]
fn no_event_is_passed_on_before_the_plugin_is_configured_and_synchronized() {
    for configured in [false, true] {
        let recorder = Recorder::default();
        let seen = Arc::clone(&recorder.seen);
        let (mut runtime, running) = pair(recorder);
        runtime.register();
        if configured {
            runtime.configure("containerd", "2.2.0").unwrap();
            let part = SynchronizeRequest {
                pods: vec![pod("p")],
                more: true,
                ..SynchronizeRequest::default()
            };
            runtime.synchronize(&part);
        }
        let outcome = runtime.call::<Empty>("CreateContainer", &about(pod("p")));
        assert_eq!(outcome.unwrap_err().code(), Code::FailedPrecondition);
        assert!(running.end().is_err());
        assert_eq!(seen.lock().unwrap().len(), usize::from(configured));
    }
}

#[test]
fn a_runtime_that_does_not_synchronize_is_accepted() {
    let recorder = Recorder {
        on_create: Box::new(|_, _| Err(EventError::new("no"))),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.register();
    runtime.configure("containerd", "1.7.24").unwrap();
    let outcome = runtime.call::<Empty>("CreateContainer", &about(pod("p")));
    assert_eq!(outcome.unwrap_err().message, "no");
    let _: Empty = runtime.call("RemoveContainer", &about(pod("p"))).unwrap();
    let state = running.handle.state();
    assert!(state.is_connected(), "{state:?}");
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn a_request_after_its_deadline_is_not_passed_to_the_plugin() {
    let recorder = Recorder::default();
    let seen = Arc::clone(&recorder.seen);
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    runtime.ask("CreateContainer", &about(pod("p")), 1);
    assert_eq!(
        runtime.response().1.unwrap_err().code(),
        Code::DeadlineExceeded
    );
    drop(runtime);
    running.end().unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn requests_beyond_the_limit_are_rejected_and_the_others_answered() {
    let (release, wait) = channel::<()>();
    let (entered, inside) = channel::<()>();
    let recorder = Recorder {
        on_create: Box::new(move |_, _| {
            let _ = entered.send(());
            let _ = wait.recv();
            Ok(CreateContainerResponse::default())
        }),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    runtime.ask("CreateContainer", &about(pod("p")), 0);
    inside.recv().unwrap();
    for _ in 0..MAX_CALLS + 3 {
        runtime.ask("RemoveContainer", &about(pod("p")), 0);
    }
    for _ in 0..3 {
        let status = runtime.response().1.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }
    drop(release);
    for _ in 0..=MAX_CALLS {
        assert!(runtime.response().1.is_ok());
    }
    drop(runtime);
    running.end().unwrap();
}
