//! Failures end with a named error and never hang.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Recorder, Running, Runtime, container, identity, pair, pair_with, pod};
use nri::api::{
    ContainerRequest, ContainerUpdate, CreateContainerResponse, Empty, SynchronizeRequest,
    UpdateContainersRequest, UpdateContainersResponse,
};
use nri::ttrpc::{Code, Status};
use nri::{CallError, ConnectionState, Handle, ReconnectBackoff, Runner, SessionError};
use prost::Message;

/// Long enough for a busy machine; no test waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_protocol_violation_ends_the_session_with_a_named_error() {
    let frame = |connection: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, 0, connection, 0, 0, 0, length], payload].concat()
    };
    let table: [(Vec<u8>, &str); 10] = [
        (
            vec![0, 0, 0, 1, 0xff, 0, 0, 0],
            "a frame of connection 1 claims 4278190080 bytes",
        ),
        (
            frame(1, &[0xff, 0, 0, 0, 0, 0, 0, 1, 1, 0]),
            "message 1 has 4278190080 bytes",
        ),
        (
            frame(2, &[0, 0, 0, 0, 0, 0, 0, 1, 9, 0]),
            "has the unknown type 9",
        ),
        (
            frame(1, &[0, 0, 0, 0, 0, 0, 0, 9, 2, 0]),
            "message 9 on connection 1 has the unexpected type Response",
        ),
        (
            frame(1, &[0, 0, 0, 0, 0, 0, 0, 9, 3, 0]),
            "message 9 on connection 1 has the unexpected type Data",
        ),
        (
            frame(2, &[0, 0, 0, 0, 0, 0, 0, 9, 1, 0]),
            "message 9 on connection 2 has the unexpected type Request",
        ),
        (
            frame(1, &[0, 0, 0, 0, 0, 0, 0, 8, 1, 0]),
            "call number 8 is not odd",
        ),
        (
            frame(1, &[0, 0, 0, 0, 0, 0, 0, 1, 1, 0]),
            "call number 1 follows 3",
        ),
        (
            frame(1, &[0, 0, 0, 1, 0, 0, 0, 9, 1, 0, 0xff]),
            "message 9 on connection 1 cannot be read",
        ),
        (
            frame(1, &[0, 0, 0, 9]),
            "closed the connection in the middle of a message",
        ),
    ];
    for (bytes, expected) in table {
        let (mut runtime, running) = pair(Recorder::default());
        runtime.start();
        runtime.stream.write_all(&bytes).unwrap();
        runtime.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let problem = running.end().unwrap_err().to_string();
        assert!(problem.contains(expected), "{problem:?}, not {expected:?}");
    }
}

#[test]
fn a_session_with_a_silent_runtime_times_out() {
    let soon = Duration::from_millis(50);
    let (_runtime, running) = pair_with(Recorder::default(), |runner| {
        runner.registration_timeout(soon)
    });
    let problem = running.end().unwrap_err();
    assert!(
        matches!(problem, SessionError::Register(CallError::TimedOut { .. })),
        "{problem}"
    );
    let (mut runtime, running) = pair_with(Recorder::default(), |runner| {
        runner.registration_timeout(soon)
    });
    runtime.register();
    let problem = running.end().unwrap_err();
    assert!(
        matches!(problem, SessionError::NotConfigured(_)),
        "{problem}"
    );
}

#[test]
fn the_error_has_the_reason_of_a_runtime_that_rejects_the_plugin() {
    let (mut runtime, running) = pair(Recorder::default());
    let (stream, _): (_, Empty) = runtime.called("RegisterPlugin");
    runtime.answer(stream, Err(Status::new(Code::Unknown, "go away")));
    let problem = running.end().unwrap_err().to_string();
    assert!(problem.contains("go away"), "{problem}");
}

#[test]
fn a_plugin_reconnects_to_a_restarted_runtime_and_is_synchronized_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nri.sock");
    let recorder = Recorder::default();
    let seen = Arc::clone(&recorder.seen);
    let millisecond = Duration::from_millis(1);
    let backoff = ReconnectBackoff {
        first: millisecond,
        longest: 4 * millisecond,
    };
    let runner = Runner::new(identity()).socket(&path).backoff(backoff);
    assert_eq!(runner.handle().state(), ConnectionState::Idle);
    let running = Running::start(runner, recorder);
    // No runtime listens: the plugin retries with growing delays, and its state has the reason.
    let state = running.handle.wait_for(
        PATIENCE,
        |state| matches!(state, ConnectionState::Waiting { attempt, .. } if *attempt >= 3),
    );
    let ConnectionState::Waiting { delay, problem, .. } = state else {
        panic!("{state:?}");
    };
    assert_eq!(delay, backoff.longest);
    assert!(problem.contains("cannot connect to"), "{problem}");
    for _ in 0..2 {
        let listener = UnixListener::bind(&path).unwrap();
        let mut runtime = Runtime::accept(&listener);
        runtime.start();
        let state = running
            .handle
            .wait_for(PATIENCE, ConnectionState::is_connected);
        assert!(
            matches!(state, ConnectionState::Connected { runtime } if runtime.name == "containerd")
        );
        drop((runtime, listener));
        std::fs::remove_file(&path).unwrap();
        let state = running
            .handle
            .wait_for(PATIENCE, |state| !state.is_connected());
        assert!(!state.is_connected());
    }
    running.handle.stop();
    let handle = running.handle.clone();
    running.end().unwrap();
    assert_eq!(handle.state(), ConnectionState::Stopped);
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen.iter()
            .filter(|what| *what == "synchronize 0 0")
            .count(),
        2
    );
}

#[test]
fn stop_ends_a_session_and_a_reconnect_delay() {
    let (mut runtime, running) = pair(Recorder::default());
    runtime.start();
    running
        .handle
        .wait_for(PATIENCE, ConnectionState::is_connected);
    running.handle.stop();
    running.end().unwrap();
    let day = Duration::from_secs(86_400);
    let runner = Runner::new(identity())
        .socket("/nonexistent/nri.sock")
        .backoff(ReconnectBackoff {
            first: day,
            longest: day,
        });
    let running = Running::start(runner, Recorder::default());
    running.handle.wait_for(PATIENCE, |state| {
        matches!(state, ConnectionState::Waiting { .. })
    });
    running.handle.stop();
    running.end().unwrap();
}

#[test]
fn a_plugin_updates_containers_at_any_time_except_inside_an_event() {
    let inside: Arc<Mutex<Option<Handle>>> = Arc::default();
    let outcome: Arc<Mutex<Option<CallError>>> = Arc::default();
    let (handle, result) = (Arc::clone(&inside), Arc::clone(&outcome));
    let recorder = Recorder {
        on_create: Box::new(move |_, _| {
            let handle = handle.lock().unwrap().clone().unwrap();
            *result.lock().unwrap() = handle.update_containers(Vec::new()).err();
            Ok(CreateContainerResponse::default())
        }),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    *inside.lock().unwrap() = Some(running.handle.clone());
    let early = running.handle.update_containers(Vec::new()).unwrap_err();
    assert!(matches!(early, CallError::NotConnected));
    runtime.start();
    running
        .handle
        .wait_for(PATIENCE, ConnectionState::is_connected);
    let request = ContainerRequest {
        pod: Some(pod("p")),
        container: Some(container("c")),
    };
    let _: CreateContainerResponse = runtime.call("CreateContainer", &request).unwrap();
    assert!(matches!(
        *outcome.lock().unwrap(),
        Some(CallError::InsideAnEvent)
    ));

    let update = ContainerUpdate::new("c").cpus("0-1");
    for rejected in [false, true] {
        let (handle, wish) = (running.handle.clone(), vec![update.clone()]);
        let caller = std::thread::spawn(move || handle.update_containers(wish));
        let (stream, request): (_, UpdateContainersRequest) = runtime.called("UpdateContainers");
        assert_eq!(request.update, std::slice::from_ref(&update));
        let answer = UpdateContainersResponse {
            failed: request.update,
        };
        runtime.answer(
            stream,
            match rejected {
                false => Ok(answer.encode_to_vec()),
                true => Err(Status::new(Code::Unknown, "not now")),
            },
        );
        match caller.join().unwrap() {
            Ok(failed) => assert_eq!((failed.len(), rejected), (1, false)),
            Err(problem) => assert!(rejected && problem.to_string().contains("not now")),
        }
    }
    // A disconnected runtime fails the pending calls.
    let handle = running.handle.clone();
    let caller = std::thread::spawn(move || handle.update_containers(Vec::new()));
    let _: (u32, UpdateContainersRequest) = runtime.called("UpdateContainers");
    drop(runtime);
    assert!(matches!(
        caller.join().unwrap(),
        Err(CallError::NotConnected)
    ));
    running.end().unwrap();
}

#[test]
fn a_panic_of_the_plugin_fails_its_request_and_the_session_goes_on() {
    let recorder = Recorder {
        on_create: Box::new(|_, _| panic!("a defect of the plugin")),
        ..Recorder::default()
    };
    let (mut runtime, running) = pair(recorder);
    runtime.start();
    let request = ContainerRequest {
        pod: Some(pod("p")),
        container: Some(container("c")),
    };
    for _ in 0..2 {
        let outcome = runtime.call::<CreateContainerResponse>("CreateContainer", &request);
        let failed = outcome.unwrap_err();
        assert_eq!(failed.code(), Code::Internal);
        assert!(format!("{failed:?}").contains("panicked while it handled CreateContainer"));
    }
    assert!(running.handle.state().is_connected());
    drop(runtime);
    running.end().unwrap();
}

#[test]
fn too_many_pods_and_containers_are_rejected() {
    let (mut runtime, running) = pair(Recorder::default());
    runtime.register();
    runtime.configure("containerd", "2.2.0").unwrap();
    let part = SynchronizeRequest {
        pods: vec![pod("p"); 40_000],
        more: true,
        ..SynchronizeRequest::default()
    };
    assert!(runtime.synchronize(&part).more);
    let outcome = runtime.call::<Empty>("Synchronize", &part);
    assert_eq!(outcome.unwrap_err().code(), Code::ResourceExhausted);
    assert!(running.end().is_err());
}
