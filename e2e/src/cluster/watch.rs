//! Following the pods of a cluster: list, then watch from there, for as long as it is wanted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

/// What happened to a pod.
pub(crate) enum News {
    /// It is there, or is different.
    Is(Value),
    /// It is gone.
    Gone(Value),
}

/// How often a watch without events checks whether it was stopped.
const GLANCE: Duration = Duration::from_millis(100);
const PODS: &str = "/api/v1/pods";

/// A thread that follows all pods. It ends with this.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `handle` for every pod event, and reconnects after every loss of the connection.
    pub(crate) fn start(
        kubeconfig: &Path,
        handle: impl Fn(News) + Send + 'static,
    ) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let file = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
        let client = runtime.block_on(async {
            let config =
                kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            let config = config.map_err(|error| error.to_string())?;
            kube::Client::try_from(config).map_err(|error| error.to_string())
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let (sender, receiver) = mpsc::channel();
        // The handler may be slow and send requests to the server itself.
        thread::spawn(move || receiver.iter().for_each(handle));
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                while !until.load(Ordering::Relaxed) {
                    // Whatever it is, the next list sets it right.
                    let _ = follow(&client, &sender, &until).await;
                    sleep(GLANCE).await;
                }
            });
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn follow(
    client: &kube::Client,
    sender: &mpsc::Sender<News>,
    stop: &AtomicBool,
) -> Result<(), String> {
    // The receiver is dropped only at the end of the watch.
    let handle = |news| drop(sender.send(news));
    let listed = client.send(request(PODS)?).await;
    let listed = listed.map_err(|error| error.to_string())?.into_body();
    let listed = listed.collect().await.map_err(|error| error.to_string())?;
    let mut list: Value =
        serde_json::from_slice(&listed.to_bytes()).map_err(|error| error.to_string())?;
    if let Some(pods) = list["items"].as_array_mut() {
        for pod in pods {
            handle(News::Is(pod.take()));
        }
    }
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let path = format!("{PODS}?watch=true&resourceVersion={version}");
    let watched = client.send(request(&path)?).await;
    let mut body = watched.map_err(|error| error.to_string())?.into_body();
    let mut begun: Vec<u8> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(frame) = timeout(GLANCE, body.frame()).await else {
            continue;
        };
        let frame = frame.ok_or("the watch ended")?;
        let data = frame.map_err(|error| error.to_string())?.into_data();
        begun.extend_from_slice(&data.unwrap_or_default());
        while let Some(end) = begun.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = begun.drain(..=end).collect();
            let mut event: Value =
                serde_json::from_slice(&line).map_err(|error| error.to_string())?;
            let pod = event["object"].take();
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => handle(News::Is(pod)),
                Some("DELETED") => handle(News::Gone(pod)),
                _ => return Err(format!("{event}")),
            }
        }
    }
    Ok(())
}

fn request(path: &str) -> Result<http::Request<Body>, String> {
    let request = http::Request::builder().uri(path).body(Body::empty());
    request.map_err(|error| error.to_string())
}
