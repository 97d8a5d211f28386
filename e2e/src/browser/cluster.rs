//! The stories of a cluster: its map, pending and rejected pods, findings, 5,000 nodes.

use std::fs;
use std::path::Path;

use super::{Served, Stage, inputs};
use crate::report::Report;

/// The clusters of examples, and one of 5,000 nodes.
pub(super) fn stories(report: &mut Report, stage: &Stage, plugin: &Path) -> Result<(), String> {
    let browser = &stage.browser;
    let file = "examples/running-cluster/cluster.yaml";
    let served = Served::start(plugin, &["ui", "--nodes", file])?;
    browser.open(&served.url)?;
    report.check(
        "the cluster of a snapshot",
        browser.wait("document.body.textContent.includes('pending pod') && /\\d+ nodes?/.test(document.querySelector('.facts-line')?.textContent ?? '')"),
    );
    browser.run("document.querySelector('.pods button').click()")?;
    report.check(
        "a pending pod has its reason",
        browser
            .wait("document.querySelector('.cluster-view > .card pre')?.textContent.length > 40"),
    );
    browser.run("document.querySelector('.cluster-view > .card button').click()")?;
    report.check(
        "how many replicas of it start",
        browser.wait("/replicas? of/.test(document.body.textContent)"),
    );
    browser.run("document.querySelector('canvas').focus()")?;
    browser.press(&["\u{e014}", "\u{e014}", "\u{e007}"])?;
    report.check(
        "arrow keys and Enter open a node",
        browser.wait(
            "/^Node /.test(document.querySelector('.cluster-view > .card h3')?.textContent ?? '')",
        ),
    );
    stage.looks(report, "cluster")?;
    stage.silent(report, "cluster")?;
    doctor(report, stage, plugin)?;

    let large = stage.folder.join("large.json");
    fs::write(&large, inputs::nodes(5000)).map_err(|error| error.to_string())?;
    let large = large.display().to_string();
    let served = Served::start(plugin, &["ui", "--nodes", &large])?;
    browser.open(&served.url)?;
    report.check(
        "5,000 nodes at once",
        browser.wait("document.querySelector('.facts-line')?.textContent.includes('5,000 nodes')"),
    );
    report.check(
        "messages full of markup stay text",
        browser.wait("['4 pending pods', '4 pods rejected', 'onerror=window.hostile'].every((text) => document.body.textContent.includes(text)) && !window.hostile && document.querySelectorAll('img, iframe, script:not([src])').length === 0"),
    );
    browser.run("const field = document.getElementById('selector'); field.value = 'zone=b'; field.dispatchEvent(new Event('input'));")?;
    report.check(
        "filtered by a label",
        browser.wait("document.querySelector('.facts-line').textContent.includes('2,500 nodes')"),
    );
    browser.run("const field = document.getElementById('selector'); field.value = ''; field.dispatchEvent(new Event('input'));")?;
    browser.wait("document.querySelector('.facts-line').textContent.includes('5,000 nodes')")?;
    browser.wait("document.getElementById('version').options.length === 3")?;
    browser.run("const version = document.getElementById('version'); version.value = 'v1.34.2'; version.dispatchEvent(new Event('change'));")?;
    report.check(
        "filtered by the kubelet's version",
        browser.wait("document.querySelector('.facts-line').textContent.includes('1,000 nodes')"),
    );
    browser.run("const version = document.getElementById('version'); version.value = ''; version.dispatchEvent(new Event('change'));")?;
    stage.looks(report, "cluster-5000")?;
    stage.for_docs("cluster", 620)?;
    stage.silent(report, "5,000 nodes")
}

/// What is wrong with a cluster: its nodes are marked and can be selected.
fn doctor(report: &mut Report, stage: &Stage, plugin: &Path) -> Result<(), String> {
    let browser = &stage.browser;
    let file = "examples/cluster-doctor/cluster.yaml";
    let served = Served::start(plugin, &["ui", "--nodes", file])?;
    browser.open(&served.url)?;
    report.check(
        "a pod that was rejected in the last hour, with its reason and remedy",
        browser.wait("[...document.querySelectorAll('.card')].some((card) => /1 pod rejected/.test(card.textContent) && card.textContent.includes('TopologyAffinityError') && card.textContent.includes('ml/trainer-0'))"),
    );
    browser.run("const state = document.getElementById('state'); state.value = 'rejected'; state.dispatchEvent(new Event('change'));")?;
    report.check(
        "the nodes that rejected pods",
        browser.wait("document.querySelector('.facts-line').textContent.startsWith('1 node')"),
    );
    browser.run("const state = document.getElementById('state'); state.value = ''; state.dispatchEvent(new Event('change'));")?;
    stage.looks(report, "findings")?;
    stage.silent(report, "findings")
}
