//! The examples of `docs/machines.md` work as the page says.

use pinfold_hardware::open;
use pinfold_hardware::presets::PRESETS;

const PAGE: &str = include_str!("../../../../docs/machines.md");

/// The contents of the code blocks of one kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let opening = format!("\n```{kind}\n");
    let rest = PAGE.split(opening.as_str()).skip(1);
    rest.filter_map(|rest| rest.split_once("\n```"))
        .map(|(block, _)| block)
        .collect()
}

#[test]
fn every_example_is_a_machine() {
    let examples: Vec<&str> = blocks("machine")
        .iter()
        .flat_map(|block| block.lines())
        .collect();
    assert!(examples.len() > 8, "the page has examples");
    for example in examples {
        open(example).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
}

#[test]
fn every_mistake_gives_the_error_shown() {
    let mistakes = blocks("mistake");
    assert!(!mistakes.is_empty(), "the page shows mistakes");
    for mistake in mistakes {
        let (spec, answer) = mistake
            .split_once('\n')
            .expect("a description and an answer");
        assert_eq!(open(spec).expect_err(spec).to_string(), answer);
    }
}

#[test]
fn the_table_describes_every_preset_correctly() {
    let mut expected = String::new();
    for preset in PRESETS {
        let hardware = open(preset.name).expect(preset.name);
        let with_cpus = hardware
            .nodes
            .iter()
            .filter(|node| !node.cpus.is_empty())
            .count();
        let counts = [
            hardware.sockets.len(),
            hardware.nodes.len(),
            with_cpus,
            hardware.caches_of_level(3).count(),
            hardware.cores.len(),
            hardware.cpus.online.len(),
        ];
        let counts = counts.map(|count| count.to_string()).join(" | ");
        expected += &format!("| `{}` | {} | {counts} |\n", preset.name, preset.title());
    }
    assert!(PAGE.contains(&expected), "the table should be:\n{expected}");
}
