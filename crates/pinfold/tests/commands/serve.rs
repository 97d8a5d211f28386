//! `pinfold serve`: the page gets the answers that the commands print.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::program;

/// A server that ends when this is dropped.
struct Served {
    child: Child,
    host: String,
    token: String,
}

impl Served {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(super::PROGRAM)
            .arg("serve")
            .args(args)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut url = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output)
            .read_line(&mut url)
            .expect("an address");
        let (host, token) = url.trim().split_once("/?token=").expect("a token");
        Self {
            host: host.trim_start_matches("http://").to_owned(),
            token: token.to_owned(),
            child,
        }
    }

    /// The status and JSON of an answer.
    fn ask(&self, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.host).expect("a connection");
        let (_, port) = self.host.split_once(':').expect("a port");
        let body = body.to_string();
        let request = format!(
            "POST /api/{path} HTTP/1.1\r\nHost: {}\r\nCookie: pinfold-{port}={}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        let (head, body) = response.split_once("\r\n\r\n").expect("a body");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (
            status.expect("a status"),
            serde_json::from_str(body).expect("JSON"),
        )
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PODS: &str = "crates/pinfold/src/commands/demo/pods.yaml";

/// The demo as a question.
fn demo() -> Value {
    let text = std::fs::read_to_string(program::root().join(PODS)).expect("readable");
    json!({"machine": "dgx-h100", "pods": [{"name": "pods.yaml", "text": text}]})
}

fn printed(args: &[&str]) -> Value {
    let printed = program::run(&program::root(), args);
    serde_json::from_str(&printed.stdout).expect("JSON")
}

#[test]
fn the_page_gets_what_simulate_and_explain_print() {
    let served = Served::start(&[]);
    let (status, answer) = served.ask("simulate", &demo());
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["simulation"],
        printed(&["simulate", "-m", "dgx-h100", "-o", "json", PODS])
    );
    let picture = answer["pictures"][0].as_str().expect("a picture");
    assert!(picture.contains("data-pod=\"0\""), "{picture}");

    let (status, answer) = served.ask("explain", &json!({"question": demo(), "add": 4}));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["pod"], "inference");
    assert!(
        answer["explanation"]["decision"]["result"]["rejected"].is_object(),
        "{answer}"
    );
    let hints = answer["hints"][0]["resources"].as_array().expect("hints");
    assert!(hints.iter().any(|row| row["hints"].is_array()), "{answer}");
}

#[test]
fn the_menus_have_every_version_of_the_kubelet_and_eight_examples_beside_the_demo() {
    let served = Served::start(&[]);
    let (_, info) = served.ask("info", &json!({}));
    let names = |list: &str| -> Vec<String> {
        let all = info[list].as_array().expect("a list").iter();
        all.map(|one| one["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let deciders = names("deciders");
    for name in ["kubelet-1.29", "kubelet-1.36", "kubelet-1.37", "pinfold"] {
        let offered = deciders.iter().filter(|one| *one == name).count();
        assert_eq!(offered, 1, "{name} in {deciders:?}");
    }
    let examples = names("examples");
    assert_eq!(examples.first().map(String::as_str), Some("demo"));
    assert_eq!(examples.len(), 1 + 8);
}

#[test]
fn a_remedy_that_is_applied_admits_the_pod() {
    let served = Served::start(&[]);
    let (_, answer) = served.ask("explain", &json!({"question": demo(), "add": 4}));
    let remedies = answer["remedies"].as_array().expect("remedies");
    assert!(remedies.len() > 1, "{answer}");
    for remedy in remedies {
        let mut question = demo();
        for (key, value) in remedy["apply"]
            .as_object()
            .expect("a change of the question")
        {
            question[key] = value.clone();
        }
        let (status, answer) = served.ask("simulate", &question);
        assert_eq!(status, 200, "{answer}");
        let events = answer["simulation"]["events"].as_array().expect("events");
        let own = events.iter().rfind(|event| event["pod"] == "inference");
        let own = own.expect("the pod is added");
        assert!(own["assignment"].is_object(), "{}: {own}", remedy["text"]);
    }
}

#[test]
fn every_decider_answers_about_a_pod() {
    let served = Served::start(&[]);
    // scheduler-plugins chooses a node and assigns nothing that could be drawn.
    for (decider, pictures) in [
        ("kubelet", 1),
        ("kubelet-1.33", 1),
        ("pinfold", 1),
        ("koordinator", 1),
        ("volcano", 1),
        ("scheduler-plugins", 0),
    ] {
        let mut question = demo();
        question["as"] = decider.into();
        let (status, answer) = served.ask("simulate", &question);
        assert_eq!(status, 200, "{decider}: {answer}");
        assert_eq!(
            answer["pictures"].as_array().map(Vec::len),
            Some(pictures),
            "{decider}"
        );
        let (status, answer) = served.ask("explain", &json!({"question": question, "add": 4}));
        assert_eq!(status, 200, "{decider}: {answer}");
        assert!(
            answer["text"].as_str().is_some_and(|text| text.len() > 20),
            "{answer}"
        );
    }
}

#[test]
fn wrong_questions_name_the_part_and_the_line() {
    let served = Served::start(&[]);
    let pods = |text: &str| json!({"machine": "2 sockets, 4 cores", "pods": [{"name": "a.yaml", "text": text}]});
    let broken = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: main\n    resources: {limits: {cpu: many}}\n";
    for (question, part, line) in [
        (pods(broken), "pods", Some(7)),
        (json!({"machine": "/etc/passwd"}), "machine", None),
        (json!({"machine": "no-such-server"}), "machine", None),
        (
            json!({"machine_file": {"name": "a", "base64": "!"}}),
            "machine",
            None,
        ),
        (
            json!({"machine": "2 sockets, 4 cores", "config": "a: ["}),
            "config",
            Some(1),
        ),
        (json!({"machine": "9 sockets, 2 cores"}), "config", None),
        (
            json!({"machine": "2 sockets, 4 cores", "devices": ["a"]}),
            "devices",
            None,
        ),
        (
            json!({"machine": "2 sockets, 4 cores", "steps": "- add: x"}),
            "steps",
            None,
        ),
        (
            json!({"machine": "2 sockets, 4 cores", "as": "x"}),
            "question",
            None,
        ),
        (json!({"unknown": 1}), "question", None),
    ] {
        let (status, answer) = served.ask("simulate", &question);
        assert_eq!(status, 422, "{question}: {answer}");
        let first = &answer["findings"][0];
        assert_eq!(first["part"], part, "{question}: {answer}");
        assert_eq!(first["line"].as_u64(), line, "{question}: {answer}");
    }
}
