//! What the end-to-end suite of peers recorded, beside what the program answers today.

use std::fs;
use std::io::Read;
use std::path::Path;

use conformance::peers::Session;
use conformance::peers::round::Round;
use flate2::read::GzDecoder;
use pinfold_kube::objects;
use serde_json::{Value, json};

use crate::program::{root, run, scratch};

/// The lines of a file of `conformance/peers`.
fn lines(file: &str) -> Vec<Value> {
    let path = root().join("conformance/peers").join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .expect("a complete file");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The sessions in a file of `conformance/peers`.
fn sessions(file: &str) -> Vec<Session> {
    let lines = lines(file);
    let sessions = lines.iter();
    sessions
        .map(|line| Session::from_json(line).expect("a session"))
        .collect()
}

/// The program's answer about a session.
fn answer(name: &str, session: &Session) -> Value {
    let folder = Path::new(scratch());
    let file = |part: &str, content: &Value| {
        let path = folder.join(format!("{name}-{part}.json"));
        fs::write(&path, content.to_string()).expect("a file of the test");
        path.display().to_string()
    };
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": session.pods });
    let args = [
        "simulate".to_owned(),
        "--as=koordinator".to_owned(),
        "--output=json".to_owned(),
        "--nodes".to_owned(),
        file("state", &session.state),
        "--script".to_owned(),
        file("steps", &json!(session.steps)),
        file("pods", &pods),
    ];
    let answered = run(&root(), &args);
    serde_json::from_str(&answered.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", answered.stderr))
}

#[test]
fn every_recorded_decision_of_koord_scheduler_on_the_agent_s_reports_is_predicted() {
    let mut compared = 0;
    for (number, session) in sessions("koord-scheduler.jsonl.gz").iter().enumerate() {
        let answer = answer(&format!("koord-scheduler-{number}"), session);
        let comparison = session.compare(&answer).expect("the answer is about it");
        assert_eq!(comparison.differences, [], "session {number}");
        compared += comparison.compared;
    }
    assert!(compared >= 500, "{compared} decisions");
}

#[test]
fn a_recorded_decision_that_the_program_does_not_make_is_a_difference() {
    let mut session = sessions("koord-scheduler.jsonl.gz").swap_remove(0);
    let answer = answer("koord-scheduler-altered", &session);
    let last = session.pods.last().expect("a pod");
    let name = last["metadata"]["name"].as_str().expect("a name");
    let (_, outcome) = session.outcomes.get_mut(name).expect("its outcome");
    *outcome = conformance::peers::Outcome::Bound(json!({ "cpuset": "0-4095" }));
    let comparison = session.compare(&answer).expect("the answer is about it");
    let [(different, _)] = &comparison.differences[..] else {
        panic!("{:?}", comparison.differences);
    };
    assert_eq!(different, name);
}

/// Compares the rounds in a file with the program's answers; how many pods they decide about.
fn compare_rounds(peer: &str, decider: &str) -> usize {
    let mut decisions = 0;
    for (number, line) in lines(&format!("{peer}.jsonl.gz")).iter().enumerate() {
        let round = Round::from_json(line).expect("a round");
        let answer = answer_about_round(&format!("{peer}-{number}"), decider, &round);
        let differences = round.differences(&answer).expect("the answer is about it");
        assert_eq!(differences, Vec::<String>::new(), "round {number}");
        decisions += round.decisions();
    }
    decisions
}

fn answer_about_round(name: &str, decider: &str, round: &Round) -> Value {
    let folder = Path::new(scratch());
    let file = |part: &str, content: &Value| {
        let path = folder.join(format!("{name}-{part}.json"));
        fs::write(&path, content.to_string()).expect("a file of the test");
        path.display().to_string()
    };
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": round.pods });
    let args = [
        "simulate".to_owned(),
        format!("--as={decider}"),
        "--output=json".to_owned(),
        "--nodes".to_owned(),
        file("state", &round.state),
        file("pods", &pods),
    ];
    let answered = run(&root(), &args);
    serde_json::from_str(&answered.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", answered.stderr))
}

#[test]
fn every_recorded_decision_of_vc_scheduler_on_the_agent_s_objects_is_predicted() {
    let decisions = compare_rounds("vc-scheduler", "volcano");
    assert!(decisions >= 300, "{decisions} decisions");
}

#[test]
fn every_recorded_decision_of_topology_match_on_the_agent_s_objects_is_predicted() {
    let decisions = compare_rounds("topology-match", "scheduler-plugins");
    assert!(decisions >= 300, "{decisions} decisions");
}

#[test]
fn a_recorded_round_that_the_program_does_not_decide_is_a_difference() {
    let line = lines("topology-match.jsonl.gz").swap_remove(0);
    let mut round = Round::from_json(&line).expect("a round");
    assert_eq!(round.to_json(), line);
    let answer = answer_about_round("topology-match-altered", "scheduler-plugins", &round);
    let bound = round
        .groups
        .iter_mut()
        .find_map(|group| group.bound.as_mut());
    bound.expect("a bound group")[0].node = "another".to_owned();
    let differences = round.differences(&answer).expect("the answer is about it");
    assert_eq!(differences.len(), 1, "{differences:?}");
}

#[test]
fn the_recorded_report_of_koordlet_is_written_as_it_was_read() {
    let reports = lines("koordlet.jsonl.gz");
    assert!(!reports.is_empty());
    for report in reports {
        let read = objects::read("koordlet", report.to_string().as_bytes()).expect("readable");
        assert_eq!(read.warnings.len(), 0);
        let [topology] = &read.value.topologies[..] else {
            panic!("{} reports", read.value.topologies.len());
        };
        let written: Value =
            serde_json::from_str(&topology.content().to_json()).expect("JSON of its own");
        assert_eq!(written, report);
    }
}
