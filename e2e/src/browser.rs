//! The suite of the web page: Debian's chromium plays every view of `pinfold serve` and `kubectl pinfold ui`.
//!
//! Pictures of each view are written to `target/page`; with `PINFOLD_E2E_PAGE_DOCS=1` also those of `docs`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::programs::{self, PINFOLD, PLUGIN, workspace};
use crate::report::{Report, Runs};

mod cluster;
mod fake_agent;
mod inputs;
mod node;
mod webdriver;

use webdriver::Browser;

/// The version of axe-core that looks for barriers.
const AXE: &str = "axe-core@4.11.0";

/// Runs every story.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-page-{}", std::process::id()));
    if let Err(problem) = stories(report, &folder) {
        report.check("page", Err(problem));
    }
    let _ = fs::remove_dir_all(&folder);
}

/// What all stories use.
struct Stage {
    browser: Browser,
    folder: PathBuf,
    shots: PathBuf,
    axe: String,
}

fn stories(report: &mut Report, folder: &Path) -> Result<(), String> {
    programs::install_browser()?;
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let shots = workspace().join("target/page");
    fs::create_dir_all(&shots).map_err(|error| error.to_string())?;
    let (pinfold, plugin) = (
        programs::debug_program(PINFOLD)?,
        programs::debug_program(PLUGIN)?,
    );
    let stage = Stage {
        browser: Browser::start(folder)?,
        folder: folder.to_owned(),
        axe: axe(folder)?,
        shots,
    };
    report.theme("playground", Runs::Must, |report| {
        Ok(playground(report, &stage, &pinfold)?)
    });
    report.theme("node", Runs::Must, |report| {
        Ok(node::journal(report, &stage, &pinfold)?)
    });
    report.theme("live node", Runs::Must, |report| {
        Ok(node::live(report, &stage, &pinfold)?)
    });
    report.theme("cluster", Runs::Must, |report| {
        Ok(cluster::stories(report, &stage, &plugin)?)
    });
    Ok(())
}

/// The source of axe-core, from npm.
fn axe(folder: &Path) -> Result<String, String> {
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
    ]);
    programs::succeed(npm.arg(folder).arg(AXE))?;
    let file = folder.join("node_modules/axe-core/axe.min.js");
    fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}

/// A program that serves the page. It ends when this is dropped.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(program: &Path, args: &[&str]) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(args)
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a pipe")?;
        let mut url = String::new();
        let read = BufReader::new(output).read_line(&mut url);
        read.map_err(|error| error.to_string())?;
        let url = url.trim().to_owned();
        match url.starts_with("http://127.0.0.1:") {
            true => Ok(Self { child, url }),
            false => Err(format!("expected an address, found {url:?}")),
        }
    }

    /// The address without the token.
    fn plain(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stage {
    /// Pictures in light and dark, narrow and wide; nothing may stick out to the side.
    fn looks(&self, report: &mut Report, name: &str) -> Result<(), String> {
        for (width, height, is_dark) in [
            (1440, 1000, false),
            (1440, 1000, true),
            (360, 800, false),
            (2560, 1300, true),
        ] {
            self.browser.look(width, height, is_dark)?;
            let scheme = if is_dark { "dark" } else { "light" };
            let file = self.shots.join(format!("{name}-{width}-{scheme}.png"));
            self.browser.screenshot(&file)?;
            let beyond = self.browser.eval(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth",
            )?;
            report.check(
                format_args!("{name}: nothing sticks out at {width} pixels"),
                match beyond.as_i64() {
                    Some(0) => Ok(()),
                    other => Err(format!("{other:?} pixels")),
                },
            );
            self.barriers(report, &format!("{name}, {width} pixels, {scheme}"))?;
        }
        self.browser.look(1440, 1000, false)
    }

    /// Writes a picture for the documentation, if asked to.
    fn for_docs(&self, name: &str, height: u32) -> Result<(), String> {
        if std::env::var_os("PINFOLD_E2E_PAGE_DOCS").is_none() {
            return Ok(());
        }
        self.browser.look(1000, height, false)?;
        let file = workspace().join(format!("docs/page-{name}.png"));
        self.browser.screenshot(&file)?;
        self.browser.look(1440, 1000, false)
    }

    /// axe finds nothing serious.
    fn barriers(&self, report: &mut Report, name: &str) -> Result<(), String> {
        self.browser
            .run(&format!("if (!window.axe) {{ {} }}", self.axe))?;
        let found = self.browser.run(
            "const found = await axe.run(document, {resultTypes: ['violations']}); \
             return found.violations.filter((one) => ['serious', 'critical'].includes(one.impact)) \
               .map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);",
        )?;
        let found: Vec<&str> = found
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        report.check(
            format_args!("{name}: axe finds nothing serious"),
            match found.is_empty() {
                true => Ok(()),
                false => Err(found.join("\n")),
            },
        );
        Ok(())
    }

    /// The page printed no errors: no exception, no violation of its policy.
    fn silent(&self, report: &mut Report, name: &str) -> Result<(), String> {
        let mut errors = self.browser.errors()?;
        // The browser also prints the answers about invalid questions.
        errors.retain(|error| !error.contains("status of 422"));
        report.check(
            format_args!("{name}: no errors in the browser's console"),
            match errors.is_empty() {
                true => Ok(()),
                false => Err(errors.join("\n")),
            },
        );
        Ok(())
    }
}

/// Drops a file with this name and text on the page.
fn drop_file(name: &str, text: &str) -> String {
    let (name, text) = (Value::from(name), Value::from(text));
    format!(
        "const data = new DataTransfer(); data.items.add(new File([{text}], {name})); \
         document.dispatchEvent(new DragEvent('drop', {{dataTransfer: data, bubbles: true, cancelable: true}}));"
    )
}

fn playground(report: &mut Report, stage: &Stage, pinfold: &Path) -> Result<(), String> {
    const FIRST: &str = "document.querySelectorAll('.pods li').length === 5 && !!document.querySelector('svg.machine')";
    const RESULT: &str = "document.querySelector('.described')?.textContent ?? ''";
    let browser = &stage.browser;
    let served = Served::start(pinfold, &["serve"])?;
    browser.look(1440, 1000, false)?;
    browser.open(served.plain())?;
    report.check(
        "without the token there are no answers",
        browser.wait("document.body.textContent.includes('Open the address with the token')"),
    );
    let _ = browser.errors()?;
    browser.open(&served.url)?;
    report.check("the first visit shows the demo", browser.wait(FIRST));
    report.check(
        "the token is not in the address, and scripts cannot read the cookie",
        browser.wait("!location.search && document.cookie === ''"),
    );
    browser.run("document.querySelectorAll('button.pod')[4].click()")?;
    report.check(
        "a click explains the rejected pod: amounts, hints, the rule, remedies",
        browser.wait(
            "document.querySelectorAll('.explanation table td.short').length > 0 \
             && document.querySelectorAll('.hint-row .mask').length > 0 \
             && !!document.querySelector('.merge .mask') && document.querySelectorAll('.remedies button').length > 0",
        ),
    );
    stage.looks(report, "playground")?;
    stage.for_docs("playground", 620)?;
    browser.run("document.querySelector('.remedies button').click()")?;
    report.check(
        "a remedy is applied by its button",
        browser.wait(&format!(
            "({RESULT}).includes('5 pods admitted, 0 rejected')"
        )),
    );
    let link = browser.eval("location.href")?;
    const PODS: &str =
        "[...document.querySelectorAll('button.pod')].map((pod) => pod.textContent).join()";
    let before = browser.eval(PODS)?;
    browser.open("about:blank")?;
    browser.open(link.as_str().unwrap_or_default())?;
    let same = format!("{PODS} === {before}");
    report.check("a link reproduces the question", browser.wait(&same));

    browser.run(&drop_file("pods.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: main\n    resources: {limits: {cpu: many}}\n"))?;
    report.check(
        "an error in a dropped file is shown at its line",
        browser.wait("document.querySelector('.findings .link')?.textContent === 'line 7' && !!document.querySelector('.gutter .marked')"),
    );
    browser.run(&drop_file("machine.xml", inputs::HWLOC))?;
    browser.run(&drop_file("pods.yaml", &inputs::hostile_pods()))?;
    report.check(
        "an hwloc XML becomes the machine, and names full of markup stay text",
        browser.wait("document.querySelector('.file')?.textContent.includes('machine.xml') && document.querySelectorAll('.pods li').length > 0 && !window.hostile && document.querySelectorAll('img, iframe, script:not([src])').length === 0"),
    );
    browser.run("document.getElementById('compare').click()")?;
    browser.wait("!document.querySelectorAll('.result-side')[1].hidden")?;
    browser.run("const menu = [...document.querySelectorAll('select')][0]; menu.value = 'fragmented-node'; menu.dispatchEvent(new Event('change')); document.getElementById('compare').click();")?;
    report.check(
        "two policies side by side, differences marked",
        browser.wait("document.querySelectorAll('.result-side').length === 2 && !document.querySelectorAll('.result-side')[1].hidden && document.querySelectorAll('.differs').length > 0"),
    );
    stage.looks(report, "compare")?;
    browser.run("const deciders = [...document.querySelectorAll('.compare-with select')]; deciders[0].value = 'kubelet-1.29'; deciders[0].dispatchEvent(new Event('change')); deciders[1].value = ''; deciders[1].dispatchEvent(new Event('change'));")?;
    report.check(
        "two versions side by side",
        browser.wait("!document.querySelectorAll('.result-side')[1].hidden && document.querySelectorAll('.described')[1].textContent.includes('1.29')"),
    );
    report.check("every example has an answer", examples(browser));
    report.check(
        "keyboard: Tab reaches a pod, Enter explains it",
        keyboard(browser),
    );
    stage.silent(report, "playground")
}

/// Loads every example of the menu.
fn examples(browser: &Browser) -> Result<(), String> {
    let names = browser.eval("[...document.querySelectorAll('select')[0].options].map((one) => one.value).filter(Boolean)")?;
    for name in names.as_array().into_iter().flatten() {
        browser.run(&format!(
            "document.querySelectorAll('.pods').forEach((list) => list.replaceChildren()); \
             const menu = document.querySelectorAll('select')[0]; menu.value = {name}; menu.dispatchEvent(new Event('change'));"
        ))?;
        browser.wait("document.querySelectorAll('.pods li').length > 0 && document.querySelector('form .findings:not(:empty)') === null")
            .map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

fn keyboard(browser: &Browser) -> Result<(), String> {
    const TAB: &str = "\u{e004}";
    const ENTER: &str = "\u{e007}";
    const ESCAPE: &str = "\u{e00c}";
    browser.run("document.querySelectorAll('select')[0].focus()")?;
    for _ in 0..120 {
        if browser.eval("document.activeElement.matches('button.pod')")? == Value::Bool(true) {
            browser.press(&[ENTER])?;
            return browser.wait("!!document.querySelector('.explanation')");
        }
        // Escape lets Tab leave an editor.
        browser.press(&[ESCAPE, TAB])?;
    }
    Err("120 times Tab did not reach a pod".to_owned())
}
