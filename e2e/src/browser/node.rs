//! The stories of one node: its journal as a timeline, and a running agent.

use std::path::Path;

use super::fake_agent::{FakeAgent, entry};
use super::webdriver::Browser;
use super::{Served, Stage, inputs};
use crate::report::{Report, say};

/// A journal of 100,000 entries.
pub(super) fn journal(report: &mut Report, stage: &Stage, pinfold: &Path) -> Result<(), String> {
    let browser = &stage.browser;
    let journal = inputs::journal(&stage.folder.join("journal"), 100_000)?;
    let journal = journal.display().to_string();
    let served = Served::start(pinfold, &["serve", "--journal", &journal])?;
    browser.open(&served.url)?;
    report.check(
        "a journal of 100,000 entries is shown",
        browser.wait("document.body.textContent.includes('100,000 entries') && !!document.querySelector('svg.machine')"),
    );
    browser.run("document.querySelector('canvas').focus()")?;
    browser.press(&["\u{e00f}", "\u{e00f}"])?;
    report.check(
        "the cursor turns the picture back",
        browser.wait("/entry \\d+/.test(document.querySelector('.facts-line').textContent)"),
    );
    browser.press(&["+", "+", "+", "+", "+", "+", "+", "\u{e007}"])?;
    report.check(
        "Enter shows the entry",
        browser.wait("/Entry \\d+/.test(document.querySelector('.card h3')?.textContent ?? '')"),
    );
    browser.press(&["\u{e015}", " "])?;
    report.check(
        "a NUMA node is folded by keyboard",
        browser.wait(
            "document.getElementById('announce').textContent.includes('folded into one lane')",
        ),
    );
    browser.press(&[" ", "0"])?;
    report.check("a frame draws what is visible", frames(browser));
    stage.looks(report, "node")?;
    browser.run("document.querySelector('canvas').focus()")?;
    browser.press(&["+"; 12])?;
    stage.for_docs("node", 560)?;
    stage.silent(report, "node")
}

/// Zooms through the whole journal: spans that share a pixel are drawn once.
fn frames(browser: &Browser) -> Result<(), String> {
    let found = browser.run(
        "const canvas = document.querySelector('canvas'); const paint = CanvasRenderingContext2D.prototype.fillRect; \
         let drawn = 0; let most = 0; let times = []; \
         CanvasRenderingContext2D.prototype.fillRect = function (...box) { drawn += 1; return paint.apply(this, box); }; \
         for (let at = 0; at < 60; at += 1) { drawn = 0; \
           canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: at < 30 ? -160 : 200, clientX: 600, bubbles: true, cancelable: true})); \
           await new Promise((done) => requestAnimationFrame((begin) => { times.push(performance.now() - begin); done(); })); \
           most = Math.max(most, drawn); } \
         CanvasRenderingContext2D.prototype.fillRect = paint; times.sort((one, other) => one - other); \
         return {most, room: canvas.clientWidth * 80, median: times[30]};",
    )?;
    let number = |name: &str| found[name].as_f64().unwrap_or(f64::INFINITY);
    say(format_args!(
        "a frame of 100,000 entries is painted in {:.1} ms at the median, with at most {} boxes",
        number("median"),
        number("most")
    ));
    match number("most") > 0.0 && number("most") < number("room") {
        true => Ok(()),
        false => Err(found.to_string()),
    }
}

/// The page of an agent: what changes on the node changes on the page without a question.
pub(super) fn live(report: &mut Report, stage: &Stage, pinfold: &Path) -> Result<(), String> {
    let browser = &stage.browser;
    let agent = FakeAgent::start(&stage.folder)?;
    let hostile = "shop/<img src=x onerror=window.hostile=1>";
    agent.set("shop/first", "1", "0", &[entry(1, "rejected", "shop/wide")]);
    let socket = agent.socket.display().to_string();
    let served = Served::start(pinfold, &["serve", "--agent", "--socket", &socket])?;
    browser.open(&served.url)?;
    report.check(
        "the node now: pods, drift, best-effort CPUs",
        browser.wait("['1 pod with', 'drift: 1 container, 3 repaired', 'best-effort pods: CPUs 0', 'healthy'].every((text) => document.querySelector('.facts-line').textContent.includes(text))"),
    );
    report.check(
        "how busy the shared pool is",
        browser.wait("/of which \\d+\\.\\d of 1 busy/.test(document.querySelector('.facts-line').textContent)"),
    );
    let entries = [
        entry(1, "rejected", "shop/wide"),
        entry(2, "rejected", hostile),
    ];
    agent.set(hostile, "0-1", "", &entries);
    report.check(
        "a change of the node is on the page by itself, and a name full of markup is text",
        browser.wait("document.body.textContent.includes('2 entries') && document.querySelector('svg.machine').textContent.includes('onerror') && !window.hostile && document.querySelectorAll('img').length === 0"),
    );
    report.check(
        "drift that the page saw has a mark",
        browser.wait("(await (await fetch('api/timeline')).json()).notes.map((note) => note[1]).join() === 'drift'"),
    );
    stage.looks(report, "live-node")?;
    agent.set("shop/first", "1", "0", &[]);
    report.check(
        "a journal that begins again replaces the old one",
        browser.wait("document.body.textContent.includes('0 entries')"),
    );
    stage.silent(report, "live node")
}
