//! Static pods: a real kubelet reads them from a URL, and shows the admitted ones by their mirrors and the rejected
//! ones by events.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

use super::simulated::Simulated;
use super::{Answer, NODE, Scene, shapes};
use crate::cluster::pods::PODS;
use crate::cluster::stage::eventually;
use crate::report::{equal, say};

/// A server with the manifests of all static pods. It ends with the process.
pub(super) struct Manifests {
    pods: Arc<Mutex<Vec<Value>>>,
    port: u16,
}

impl Manifests {
    /// Serves no pods.
    pub(super) fn serve() -> Result<Self, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let pods: Arc<Mutex<Vec<Value>>> = Arc::default();
        let served = Arc::clone(&pods);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let pods = served.lock().unwrap_or_else(PoisonError::into_inner);
                let list = json!({ "apiVersion": "v1", "kind": "PodList", "items": *pods });
                drop(pods);
                let _ = answer(stream, &list.to_string());
            }
        });
        Ok(Self {
            pods,
            port: address.port(),
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Serves these pods from now on.
    fn set(&self, pods: Vec<Value>) {
        *self.pods.lock().unwrap_or_else(PoisonError::into_inner) = pods;
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream, body: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let length = body.len();
    write!(
        stream,
        "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Static pods that fit, that select another node, and that use a port in use; on a node with a taint that evicts.
pub(super) fn run(scene: &Scene<'_>, manifests: &Manifests) -> Result<(), String> {
    scene.change_node(91, &super::tainted())?;
    let mut holder = shapes::with_port(shapes::requesting("holder", NODE, &[("cpu", "1")]), 9090);
    holder["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    let (_, kubelet) = scene.bind(&holder)?;
    equal("the pod with the port", kubelet, Answer::Admitted)?;
    let fits = shapes::requesting("fits", NODE, &[("cpu", "1"), ("memory", "64Mi")]);
    let mut elsewhere = shapes::requesting("elsewhere", NODE, &[("cpu", "1")]);
    elsewhere["spec"]["nodeSelector"] = json!({ "disk": "hdd" });
    let port = shapes::with_port(shapes::requesting("port", NODE, &[("cpu", "1")]), 9090);
    let mut windows = shapes::requesting("windows", NODE, &[("cpu", "1")]);
    windows["spec"]["os"] = json!({ "name": "windows" });
    for pod in [fits, elsewhere, port, windows] {
        let state = scene.state(&["holder".to_owned()])?;
        let mut pod = pod;
        // No volume of the API server: a static pod may not name one.
        pod["spec"]["volumes"] = json!([]);
        pod["spec"]["containers"][0]["image"] = "localhost/none:1".into();
        manifests.set(vec![pod.clone()]);
        let (mirror, kubelet) = decided(scene, &pod)?;
        say(format_args!("        static: {kubelet}"));
        let simulated = scene.simulator.ask(&state, &mirror)?;
        equal("both answers", simulated, Simulated::Answer(kubelet))?;
        manifests.set(Vec::new());
        let name = mirror["metadata"]["name"].as_str().unwrap_or_default();
        eventually("the static pod ends", || {
            let path = format!("{PODS}/{name}");
            match scene.stage.admin.ask("GET", &path, None)? {
                (404, _) => Ok(()),
                (_, pod) => Err(pod["status"].to_string()),
            }
        })?;
    }
    scene.end_all()
}

/// The mirror of a static pod and the kubelet's answer to the pod. A rejected pod has no mirror: the events have the
/// answer.
fn decided(scene: &Scene<'_>, pod: &Value) -> Result<(Value, Answer), String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let name = format!("{name}-{NODE}");
    eventually(&format!("the kubelet answers about {name}"), || {
        let path = format!("{PODS}/{name}");
        if let (200, mirror) = scene.stage.admin.ask("GET", &path, None)? {
            return Ok((mirror, Answer::Admitted));
        }
        let path = format!(
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name},type%3DWarning"
        );
        let events = scene.stage.admin.expect("GET", &path, None)?;
        let event = &events["items"][0];
        let text = |key: &str| event[key].as_str().map(str::to_owned);
        let reason = text("reason").ok_or("no event")?;
        // The status, which no object shows, has these words before the event's.
        let message = format!("Pod was rejected: {}", text("message").unwrap_or_default());
        let mut mirror = pod.clone();
        mirror["metadata"]["name"] = name.as_str().into();
        mirror["metadata"]["annotations"] = json!({
            "kubernetes.io/config.mirror": "mirror", "kubernetes.io/config.source": "http",
        });
        Ok((mirror, Answer::Failed(reason, message)))
    })
}
