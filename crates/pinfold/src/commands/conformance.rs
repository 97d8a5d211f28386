//! `pinfold conformance`: replays test vectors of the real programs and compares the decisions.

use std::fmt::Write;
use std::process::ExitCode;

use conformance::{ConformanceReport, FamilyReport, Replayed};

use crate::args::{ConformanceArgs, ReplayedArg};
use crate::exit::{Failure, REJECTED};
use crate::output;
use crate::progress::Activity;

pub(crate) fn run(args: &ConformanceArgs) -> Result<ExitCode, Failure> {
    let replayed = match args.replayed {
        ReplayedArg::Original => Replayed::Original,
        ReplayedArg::Pinfold => Replayed::Pinfold,
    };
    let family = args.family.as_deref();
    let activity = Activity::on_stderr("replaying vectors");
    let report = conformance::run(&args.dir, family, replayed, args.failures)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    drop(activity);
    output::print_as(args.output, &report, || text(&report))?;
    Ok(if report.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(REJECTED)
    })
}

fn text(report: &ConformanceReport) -> String {
    let mut text = format!(
        "{:<18} {:<22} {:>6} {:>7} {:>7}  set aside\n",
        "system", "family", "cases", "passed", "failed"
    );
    let mut total = FamilyReport::default();
    for family in &report.families {
        total.cases += family.cases;
        total.passed += family.passed;
        total.failed += family.failed;
        total.different += family.different;
        for (defect, count) in &family.defects {
            *total.defects.entry(defect).or_default() += count;
        }
        for (reason, count) in &family.set_aside {
            *total.set_aside.entry(reason.clone()).or_default() += count;
        }
        row(&mut text, family, &family.system, &family.family);
    }
    row(&mut text, &total, "all", "");
    if total.different > 0 {
        let _ = writeln!(
            text,
            "\n{} cases differ because Pinfold does not repeat these defects of the kubelet:",
            total.different
        );
        for (defect, count) in &total.defects {
            let _ = writeln!(text, "{count:>6}  {defect}");
        }
    }
    for family in &report.families {
        for failure in &family.failures {
            let _ = write!(text, "\n{} {}", family.family, failure.case);
            if !failure.tag.is_empty() {
                let _ = write!(text, " [{}]", failure.tag);
            }
            text.push('\n');
            for line in failure.difference.lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    text
}

fn row(text: &mut String, family: &FamilyReport, system: &str, name: &str) {
    let aside: Vec<String> = family
        .set_aside
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let _ = writeln!(
        text,
        "{system:<18} {name:<22} {:>6} {:>7} {:>7}  {}",
        family.cases,
        family.passed,
        family.failed,
        if aside.is_empty() {
            "-".to_owned()
        } else {
            aside.join(", ")
        }
    );
}
