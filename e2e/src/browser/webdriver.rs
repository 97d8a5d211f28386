//! A small client of WebDriver: JSON over HTTP/1.1, one request per connection.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// How long anything on the page may take before it counts as missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running browser with one window. It ends when this is dropped.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts a browser with a fresh profile below `folder`.
    pub(super) fn start(folder: &Path) -> Result<Self, String> {
        let port = free_port()?;
        let driver = Command::new("/usr/bin/chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("chromedriver: {error}"))?;
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
        };
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            &profile,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = until("a browser", || browser.call("POST", "/session", &wanted))?;
        let id = session["sessionId"].as_str().ok_or("a session has an id")?;
        browser.session = format!("/session/{id}");
        Ok(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let failed = |error: std::io::Error| format!("{method} {path}: {error}");
        let body = match method {
            "POST" => body.to_string(),
            _ => String::new(),
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream
            .set_read_timeout(Some(PATIENCE * 2))
            .map_err(failed)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        // chromedriver keeps the connection open.
        let mut response = Vec::new();
        let body = loop {
            if let Some(body) = whole_body(&response) {
                break String::from_utf8_lossy(body).into_owned();
            }
            let mut chunk = [0; 1 << 16];
            match stream.read(&mut chunk).map_err(failed)? {
                0 => return Err(format!("{method} {path}: no whole response")),
                read => response.extend_from_slice(&chunk[..read]),
            }
        };
        let answer: Value =
            serde_json::from_str(&body).map_err(|error| format!("{path}: {error}"))?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{path}: {error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    pub(super) fn open(&self, url: &str) -> Result<(), String> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    /// The value of an expression on the page; promises are waited for.
    pub(super) fn eval(&self, expression: &str) -> Result<Value, String> {
        let script = format!("return (async () => ({expression}))();");
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs statements on the page.
    pub(super) fn run(&self, script: &str) -> Result<Value, String> {
        let script = format!("return (async () => {{ {script} }})();");
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true.
    pub(super) fn wait(&self, expression: &str) -> Result<(), String> {
        until(expression, || match self.eval(expression)? {
            Value::Bool(true) => Ok(()),
            other => Err(other.to_string()),
        })
    }

    /// Presses keys, wherever the focus is.
    pub(super) fn press(&self, keys: &[&str]) -> Result<(), String> {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let keyboard = json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]});
        self.post("/actions", &keyboard).map(drop)
    }

    /// Makes the page this wide, light or dark.
    pub(super) fn look(&self, width: u32, height: u32, is_dark: bool) -> Result<(), String> {
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let command = |name: &str, params: Value| {
            let body = json!({"cmd": name, "params": params});
            self.post("/goog/cdp/execute", &body)
        };
        command(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )?;
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        command("Emulation.setDeviceMetricsOverride", size).map(drop)
    }

    /// Writes what the window shows as PNG.
    pub(super) fn screenshot(&self, file: &Path) -> Result<(), String> {
        self.run("await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));")?;
        let path = format!("{}/screenshot", self.session);
        let shot = self.call("GET", &path, &Value::Null)?;
        let bytes = STANDARD.decode(shot.as_str().unwrap_or_default());
        let bytes = bytes.map_err(|error| error.to_string())?;
        fs::write(file, bytes).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Errors that the page printed since the last call, such as violations of its policy.
    pub(super) fn errors(&self) -> Result<Vec<String>, String> {
        let log = self.post("/se/log", &json!({"type": "browser"}))?;
        let lines = log.as_array().into_iter().flatten();
        let severe = lines.filter(|line| line["level"] == "SEVERE");
        Ok(severe.map(|line| line["message"].to_string()).collect())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.call("DELETE", &self.session, &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The body of a response that has arrived as a whole.
fn whole_body(response: &[u8]) -> Option<&[u8]> {
    let head = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    let lines = std::str::from_utf8(response.get(..head)?).ok()?.lines();
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let (_, length) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    let body = response.get(head + 4..)?;
    body.get(..length.trim().parse().ok()?)
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| error.to_string())
}

/// Tries until it succeeds; the last problem is the error.
pub(super) fn until<T>(
    what: &str,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return Ok(found),
            Err(problem) if began.elapsed() > PATIENCE => return Err(format!("{what}: {problem}")),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
