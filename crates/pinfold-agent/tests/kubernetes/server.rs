//! A small HTTP server whose responses the tests choose.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;

use pinfold_apiserver::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "a-token-that-must-not-be-logged";

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) authorization: String,
    pub(crate) body: Value,
}

/// A response.
pub(crate) enum Answer {
    Json(u16, Value),
    Text(u16, String),
    /// Lines from a channel; the response ends when the sender is dropped.
    Lines(Receiver<String>),
    /// No response, while the connection stays open.
    Never,
    /// An endless body.
    Flood,
}

pub(crate) struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_for("/", answer)
    }

    /// A server that only knows paths with this prefix: other requests are not logged and get no response.
    pub(crate) fn start_for(
        prefix: &'static str,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || serve(stream.unwrap(), prefix, &*answer, &log));
            }
        });
        Self {
            address,
            asked,
            folder: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn connection(&self) -> Connection {
        let path = self.folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(&format!("http://{}", self.address))).unwrap();
        Connection::from_kubeconfig(&path).unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Number of requests with this method and path prefix.
    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        let asked = self.asked();
        let matching = asked
            .iter()
            .filter(|asked| asked.method == method && asked.path.starts_with(path));
        matching.count()
    }
}

pub(crate) fn kubeconfig(url: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": url } }],
        "users": [{ "name": "test", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    })
    .to_string()
}

/// An error response of an API server.
pub(crate) fn status(code: u16, message: &str) -> Answer {
    let body = json!({ "kind": "Status", "code": code, "message": message });
    Answer::Json(code, body)
}

fn serve(
    stream: TcpStream,
    prefix: &str,
    answer: &dyn Fn(&Asked) -> Answer,
    log: &Mutex<Vec<Asked>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let Some(asked) = read(&mut reader) else {
        return;
    };
    let mut stream = stream;
    let response = match asked.path.starts_with(prefix) {
        true => {
            log.lock().unwrap().push(asked.clone());
            answer(&asked)
        }
        false => Answer::Never,
    };
    // The client may have disconnected.
    let _ = write(&mut stream, response);
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let method = words.next()?.to_owned();
    let (path, query) = words
        .next()
        .map(|path| path.split_once('?').unwrap_or((path, "")))?;
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut header = |wanted: &[&str]| -> Option<Vec<String>> {
        let mut values = vec![String::new(); wanted.len()];
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(':') else {
                return Some(values);
            };
            if let Some(at) = wanted.iter().position(|own| own.eq_ignore_ascii_case(name)) {
                values[at] = value.trim().to_owned();
            }
        }
    };
    let values = header(&["content-length", "content-type", "authorization"])?;
    let mut body = vec![0; values[0].parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Asked {
        method,
        path,
        query,
        content_type: values[1].clone(),
        authorization: values[2].clone(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

fn write(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    let head = |code: u16| format!("HTTP/1.1 {code} -\r\nConnection: close\r\n");
    let whole = |stream: &mut TcpStream, code: u16, text: &str| {
        let length = text.len();
        write!(
            stream,
            "{}Content-Length: {length}\r\n\r\n{text}",
            head(code)
        )
    };
    match answer {
        Answer::Json(code, value) => whole(stream, code, &value.to_string()),
        Answer::Text(code, text) => whole(stream, code, &text),
        Answer::Lines(lines) => {
            write!(stream, "{}\r\n", head(200))?;
            lines.iter().try_for_each(|line| writeln!(stream, "{line}"))
        }
        Answer::Never => loop {
            thread::park();
        },
        Answer::Flood => {
            write!(stream, "{}\r\n", head(200))?;
            let bytes = [b' '; 65536];
            loop {
                stream.write_all(&bytes)?;
            }
        }
    }
}
