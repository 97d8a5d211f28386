//! CPU time of one merge, by machine size, number of resources and kind of scene.
//!
//! `cargo bench -p pinfold-core --bench merge [-- words]`; with words only the lines that contain all of them. CPU time is
//! what the kernel charged this thread for (`/proc/thread-self/schedstat`), so a busy machine does not disturb it
//! much. Each line: median, 99th percentile and maximum over the scenes, each measured as the best of a few
//! rounds, families given; and how many scenes a search did not settle within its budget.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../tests/merge_scenes/mod.rs"]
mod merge_scenes;

use std::hint::black_box;

use merge_scenes::{Load, Random, SHAPES, Scene, adversarial, machine_scene};
use pinfold_core::merge::{merge, merge_by_families};

fn cpu_nanos() -> u64 {
    // The kernel brings the figure up to date when the thread lets go of its CPU.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// CPU time of one merge of the scene.
fn measure(scene: &Scene) -> u64 {
    let request = scene.request();
    let mut repeats = 1_u64;
    let mut best = u64::MAX;
    for _ in 0..4 {
        let start = cpu_nanos();
        for _ in 0..repeats {
            black_box(merge(black_box(&request)));
        }
        let spent = cpu_nanos() - start;
        best = best.min(spent / repeats);
        // Long enough for the clock to be exact.
        repeats = (1_000_000 / best.max(1)).clamp(1, 2_000);
    }
    best
}

fn report(name: &str, make: impl Fn(&mut Random) -> Scene) {
    let words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    if !words.into_iter().all(|word| name.contains(&word)) {
        return;
    }
    let count = std::env::var("PINFOLD_BENCH_SCENES").ok();
    let count: u64 = count.and_then(|text| text.parse().ok()).unwrap_or(20);
    let scenes: Vec<Scene> = (0..count).map(|seed| make(&mut Random(seed))).collect();
    let mut times: Vec<u64> = scenes.iter().map(measure).collect();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100] as f64 / 1000.0;
    let open = scenes
        .iter()
        .filter(|scene| !merge_by_families(&scene.request()).facts.exact());
    let preferred = scenes
        .iter()
        .filter(|scene| merge(&scene.request()).hint.preferred);
    println!(
        "{name:<44} {:>9.1} {:>9.1} {:>9.1} us   not settled {:>3} of {}, preferred {}",
        at(50),
        at(99),
        at(100),
        open.count(),
        scenes.len(),
        preferred.count(),
    );
}

fn main() {
    println!(
        "{:<44} {:>9} {:>9} {:>9}",
        "scenes", "median", "99 %", "max"
    );
    for nodes in [4, 8, 16, 34, 64] {
        for resources in [3, 5, 10] {
            for (closest, suffix) in [(false, ""), (true, ", closest")] {
                for load in [Load::Idle, Load::Wide, Load::Crowded] {
                    let name = format!("{nodes} nodes, {resources} resources, {load:?}{suffix}");
                    report(&name, |random| {
                        machine_scene(random, nodes, resources, load, closest)
                    });
                }
            }
        }
    }
    for nodes in [16, 32, 64] {
        let shapes = SHAPES.into_iter().map(Some);
        for shape in [None].into_iter().chain(shapes) {
            let name = format!("{nodes} nodes, adversarial, closest {shape:?}");
            report(&name, |random| adversarial(random, nodes, shape));
        }
    }
}
