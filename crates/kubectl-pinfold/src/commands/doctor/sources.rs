//! Reads the [`Evidence`]: from the API server, or from files.

use pinfold_kube::api_object::ApiObject;
use pinfold_kube::decider::Decider;
use pinfold_kube::manifest::Document;
use pinfold_terminal::{Failure, object_files};
use serde_json::Value;

use super::super::live::{self, ListedKind};
use super::definitions::DEFINITIONS;
use super::evidence::Evidence;
use super::{agents, pins, rejections, reports};
use crate::args::ObjectsArgs;

/// The most events with one reason.
const MAX_EVENTS: usize = 20_000;
/// The kinds that only this command lists.
const DEFINITION: &str = "CustomResourceDefinition";
const EVENT: &str = "Event";

/// Reads the objects of `--nodes`, or of the API server.
pub(super) fn read(args: &ObjectsArgs) -> Result<Evidence, Failure> {
    match args.nodes.is_empty() {
        true => from_server(args),
        false => from_files(args),
    }
}

fn from_files(args: &ObjectsArgs) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    for path in &args.nodes {
        object_files::read(path, &mut |_, document| {
            add(&mut evidence, document, &document.to_json());
            Ok(())
        })?;
    }
    evidence.now = evidence.latest();
    if evidence.definitions.is_none() {
        let why = "definitions of reports: the files have no CustomResourceDefinition";
        evidence.not_checked.push(why.to_owned());
    }
    if evidence.events.is_empty() {
        let why = "what agents report by events: the files have no Event";
        evidence.not_checked.push(why.to_owned());
    }
    let pods = &evidence.pods;
    if !pods.is_empty() && pods.iter().all(|pod| pod.images.is_empty()) {
        let why = "other programs that pin CPUs: the pods have no images, as in a snapshot";
        evidence.not_checked.push(why.to_owned());
    }
    if evidence
        .reports
        .values()
        .all(|report| report.written.is_none())
    {
        let why = "who wrote the reports, and when: files have no managedFields";
        evidence.not_checked.push(why.to_owned());
    }
    Ok(evidence)
}

fn from_server(args: &ObjectsArgs) -> Result<Evidence, Failure> {
    let mut evidence = Evidence {
        now: jiff::Timestamp::now(),
        ..Evidence::default()
    };
    let missing = live::each_object_of(args, &kinds(), &mut |kind, version, json| {
        if kind == DEFINITION {
            evidence.definitions.get_or_insert_default();
        }
        match ApiObject::parse(kind, version, json) {
            Ok(object) => add(&mut evidence, &object.document, json),
            Err(invalid) => evidence.note_invalid(invalid.name.clone(), invalid.to_string()),
        }
    })?;
    let mut seen: Vec<&str> = Vec::new();
    for list in missing {
        // Without Volcano its reports are not needed, and events are listed once for each reason.
        let is_needed = list.is_rejected || list.kind != "Numatopology";
        if is_needed && !seen.contains(&list.kind) {
            seen.push(list.kind);
            evidence.not_checked.push(list.note());
        }
    }
    if !seen.contains(&DEFINITION) {
        evidence.definitions.get_or_insert_default();
    }
    Ok(evidence)
}

fn add(evidence: &mut Evidence, document: &Document, json: &str) {
    let raw: Value = serde_json::from_str(json).unwrap_or_default();
    evidence.add(document, &raw);
}

/// The kinds to list. Pods that failed are among them: the kubelet leaves those that it rejected in this phase.
fn kinds() -> Vec<ListedKind> {
    let mut kinds = live::kinds(Decider::default(), None);
    for kind in kinds.iter_mut().filter(|kind| kind.kind == "Pod") {
        kind.fields = "status.phase!=Succeeded".to_owned();
    }
    kinds.extend(DEFINITIONS.iter().map(|definition| ListedKind {
        plural: "customresourcedefinitions",
        kind: DEFINITION,
        versions: vec![(
            "apiextensions.k8s.io/v1",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
        )],
        fields: format!("metadata.name={}", definition.name),
        most: 1,
        without: "the definitions of reports are not checked",
    }));
    let reasons = [
        agents::EVENTS,
        pins::EVENTS,
        reports::EVENTS,
        rejections::EVENTS,
    ];
    kinds.extend(reasons.into_iter().flatten().map(|reason| ListedKind {
        plural: "events",
        kind: EVENT,
        versions: vec![("v1", "/api/v1/events".to_owned())],
        fields: format!("reason={reason}"),
        most: MAX_EVENTS,
        without: "what agents and kubelets report by events is not checked",
    }));
    kinds
}
