//! Calls of the engine that are none of the plugin's.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pinfold_scheduler::engine::wire::VERSION;
use serde_json::{Value, json};
use tonic::Code;

use super::super::engine::Engine;
use super::super::pods::{cpus, pod};
use crate::report::equal;

/// More than any pod in the API server is.
const OVERSIZED: usize = 8 << 20;

fn asked() -> Value {
    let mut pod = pod("asked", "no-scheduler", &[cpus(1)]);
    pod["metadata"]["uid"] = json!("asked");
    pod["metadata"]["resourceVersion"] = json!("1");
    pod
}

/// Only the user of the engine can open its socket.
pub(super) fn other_users(engine: &Engine) -> Result<(), String> {
    let mode = |path: &std::path::Path| {
        let found = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(found.permissions().mode() & 0o777)
    };
    equal("mode of the socket", mode(&engine.socket)?, 0o600)?;
    let folder = engine.socket.parent().ok_or("the socket has no folder")?;
    equal("mode of its folder", mode(folder)?, 0o700)
}

/// Whatever is too long or makes no sense is rejected, and calls that make sense are answered.
pub(super) fn malformed(engine: &Engine) -> Result<(), String> {
    let mut garbage = UnixStream::connect(&engine.socket).map_err(|error| error.to_string())?;
    let _ = garbage.set_read_timeout(Some(Duration::from_secs(30)));
    let _ = garbage.write_all(&[0x47; 4096]);
    let _ = garbage.read_to_end(&mut Vec::new());
    let mut client = engine.client()?;
    let code = |result: Result<(), tonic::Status>| result.err().map(|status| status.code());
    let other = code(client.connect(VERSION + 1));
    equal("another version", other, Some(Code::FailedPrecondition))?;
    let early = code(client.pre_filter(&asked()).map(drop));
    equal("before a session", early, Some(Code::FailedPrecondition))?;
    client.session()?;
    let mut long = asked();
    long["metadata"]["annotations"] = json!({ "a": "x".repeat(OVERSIZED) });
    let long = code(client.pre_filter(&long).map(drop));
    equal("oversized", long, Some(Code::OutOfRange))?;
    for nonsense in [
        json!("text"),
        json!({ "metadata": { "uid": "asked" }, "spec": 7 }),
    ] {
        let mut wrong = asked();
        wrong["spec"] = nonsense;
        let found = code(client.pre_filter(&wrong).map(drop));
        equal("nonsense", found, Some(Code::InvalidArgument))?;
    }
    let answer = client.pre_filter(&asked());
    answer.map(drop).map_err(|status| status.to_string())
}
