//! [`PlayedKubelet`]: the part of a kubelet that koordlet asks: its pods, on a port without encryption.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use crate::control_plane::Admin;

/// How long a request may take to arrive.
const LIMIT: Duration = Duration::from_secs(30);

/// It ends with this.
pub(crate) struct PlayedKubelet {
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl PlayedKubelet {
    /// Answers `/pods/` with the pods of a node, as the API server has them.
    pub(crate) fn start(kubeconfig: &Path, node: &str) -> Result<Self, String> {
        let words = |error: std::io::Error| error.to_string();
        let listener = TcpListener::bind("127.0.0.1:0").map_err(words)?;
        let port = listener.local_addr().map_err(words)?.port();
        let admin = Admin::new(kubeconfig)?;
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let server = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                let _ = answer(stream, &admin, &path);
            }
        });
        Ok(Self {
            port,
            stop,
            server: Some(server),
        })
    }
}

impl Drop for PlayedKubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The server waits for a client.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn answer(mut stream: TcpStream, admin: &Admin, path: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut request = [0; 4096];
    let length = stream.read(&mut request)?;
    let is_asked = request[..length].starts_with(b"GET /pods");
    let list = admin.expect("GET", path, None).ok().filter(|_| is_asked);
    // koordlet waits for a list that is not empty: a kubelet has pods of its own.
    let own = json!({
        "metadata": { "name": "of-the-node", "namespace": "kube-system", "uid": "of-the-node" },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
        "status": { "phase": "Running", "qosClass": "BestEffort" },
    });
    let (code, body) = match list {
        Some(mut list) => {
            if let Some(items) = list["items"].as_array_mut() {
                items.push(own);
            }
            ("200 OK", list.to_string())
        }
        None => ("404 Not Found", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
