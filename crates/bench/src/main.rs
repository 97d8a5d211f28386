//! Measures decisions in CPU time and compares them with the original programs.
//!
//! ```text
//! pinfold-bench [WORD ...]         measure the cases whose names contain all words; without any, all,
//!                                  and write target/bench.json, target/instructions.json and target/page-sizes.json
//! pinfold-bench --write-docs       the same, and write docs/benchmarks.md
//! pinfold-bench --memory           the memory of the scheduler's engine with 5,000 nodes and 150,000 pods
//! pinfold-bench --list             the names of all cases
//! pinfold-bench --once NAME N      run one case N times and measure nothing: for profilers
//! ```
//!
//! The shapes and the figures of the original programs are read from `conformance/*/BENCH.md`.

#![allow(clippy::print_stdout, reason = "this is a program for the terminal")]

mod case;
mod cases;
mod clock;
mod fixture;
mod instructions;
mod memory;
#[path = "../../pinfold-core/tests/merge_cases/mod.rs"]
#[allow(
    clippy::cast_sign_loss,
    missing_docs,
    reason = "shared with the tests of the merge"
)]
mod merge_cases;
#[path = "../../../e2e/src/browser/inputs.rs"]
#[allow(dead_code, reason = "shared with the tests of the page")]
mod page_inputs;
mod reference;
mod report;

use std::process::ExitCode;

use case::BenchCase;
use report::MeasuredCase;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["--list"] => {
            for case in cases::all() {
                println!("{}", case.full_name());
            }
            Ok(())
        }
        ["--memory"] => memory::measure().map(|line| println!("{line}")),
        ["--once", name, count] => once(name, count),
        ["--write-docs"] => measure_all(true),
        [] => measure_all(false),
        [flag, ..] if flag.starts_with('-') => Err(format!("unknown option {flag}")),
        words => {
            measure(|case| words.iter().all(|word| case.full_name().contains(word)));
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn once(name: &str, count: &str) -> Result<(), String> {
    let count: u64 = count
        .parse()
        .map_err(|_| format!("{count:?} is not a number of repetitions"))?;
    let found = cases::all()
        .into_iter()
        .find(|case| case.full_name() == name);
    let case = found.ok_or_else(|| format!("no case {name:?}; see --list"))?;
    case.run(count);
    Ok(())
}

fn measure(is_wanted: impl Fn(&BenchCase) -> bool) -> Vec<MeasuredCase> {
    let mut rows: Vec<MeasuredCase> = Vec::new();
    for case in cases::all().iter().filter(|case| is_wanted(case)) {
        let row = MeasuredCase::of(case);
        if rows.last().is_none_or(|last| last.group != row.group) {
            println!("\n{}", report::heading(row.group));
        }
        println!("{}", row.line());
        rows.push(row);
    }
    rows
}

fn measure_all(write_docs: bool) -> Result<(), String> {
    let rows = measure(|_| true);
    println!("\n{}", report::targets_met(&rows));

    println!("\ninstructions per operation");
    let counts = instructions::count(&cases::all());
    match &counts {
        Ok(counts) => counts
            .iter()
            .for_each(|(name, count)| println!("{name:<68} {count:>12}")),
        Err(reason) => println!("not counted: {reason}"),
    }
    let counts = counts.unwrap_or_default();

    println!("\nsizes of the page in bytes");
    let sizes = cases::page::sizes()?;
    for size in &sizes {
        println!("{}", report::size_line(size));
    }

    let write = |path: &str, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{path}: {error}"))
    };
    write("target/bench.json", report::json(&rows))?;
    write("target/instructions.json", instructions::json(&counts))?;
    write("target/page-sizes.json", report::sizes_json(&sizes))?;
    if write_docs {
        let path = "docs/benchmarks.md";
        let old = std::fs::read_to_string(path).unwrap_or_default();
        // The sections that other commands write are at the end and are kept.
        let others = old.find("<!-- make bench-").map_or("", |at| &old[at..]);
        let mut page = report::markdown(&rows, &counts, &sizes);
        if !others.is_empty() {
            page = format!("{}\n\n{others}", page.trim_end());
        }
        write(path, page)?;
    }
    Ok(())
}
