//! [`FakeAgent`]: answers on a unix socket as the node agent does, with whatever state a story gives it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pinfold_journal::Timestamp;
use serde_json::{Value, json};

/// A listening agent. Its thread ends with the process.
pub(super) struct FakeAgent {
    pub(super) socket: PathBuf,
    state: Arc<Mutex<AgentState>>,
}

#[derive(Clone, Default)]
struct AgentState {
    status: Value,
    entries: Vec<Value>,
}

impl FakeAgent {
    pub(super) fn start(folder: &Path) -> Result<Self, String> {
        let socket = folder.join("agent.sock");
        let listener = UnixListener::bind(&socket).map_err(|error| error.to_string())?;
        let state = Arc::new(Mutex::new(AgentState::default()));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let state = state.clone();
                let _ = answer(stream, &state);
            }
        });
        Ok(Self { socket, state })
    }

    /// The agent of a node with these CPUs held by a pod of this name, and a journal of these entries.
    pub(super) fn set(&self, holder: &str, cpus: &str, shared: &str, entries: &[Value]) {
        let status = json!({
            "version": "0.0.0", "node": "node-1", "mode": "manage",
            "topologyPolicy": "single-numa-node", "topologyScope": "container",
            "generation": entries.len(), "runtimeConnected": true, "problems": [],
            "drift": {"driftedContainers": 1, "repaired": 2 + entries.len()}, "bestEffortCpus": shared,
            "occupancy": {
                "holders": [{"name": holder, "cpus": cpus, "memory": []}],
                "shared_only_pods": 2, "shared": shared, "reserved": "", "memory": [], "devices": [],
            },
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = AgentState {
            status,
            entries: entries.to_vec(),
        };
    }
}

/// An entry of the journal about a pod, some minutes ago.
pub(super) fn entry(number: u64, event: &str, pod: &str) -> Value {
    let ago = std::time::Duration::from_secs(60 * 10_u64.saturating_sub(number));
    json!({
        "number": number, "time": Timestamp::now() - ago,
        "event": {(event): format!("uid-{pod}")}, "podName": pod, "message": format!("{event} {pod}"),
    })
}

fn answer(mut stream: UnixStream, state: &AgentState) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&chunk[..read]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let body = match path.split_once("after=") {
        None => state.status.clone(),
        Some((_, after)) => {
            let after: usize = after.parse().unwrap_or(0);
            json!({"entries": state.entries.get(after..).unwrap_or_default(), "lastNumber": state.entries.len()})
        }
    };
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}
