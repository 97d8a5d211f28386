//! Properties of every picture, for any machine and any pods.

use std::sync::Arc;

use pinfold_core::device::{Device, NoPreference};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::occupancy::Occupancy;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_hardware::presets::PRESETS;
use pinfold_render::grid::{self, Legend};
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::Caption;
use pinfold_render::{Colour, svg, tree};
use quick_xml::Reader;
use quick_xml::events::Event;

const WIDTH: usize = 80;

/// A known server, full of pods with 3 CPUs and one device each.
fn full_node(preset: &str, pods: usize) -> Ledger {
    let hardware = pinfold_hardware::presets::read(preset).expect(preset);
    let machine = Arc::new(hardware.machine().expect(preset));
    let settings = Settings {
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("1".parse().expect("a quantity")),
        ..Settings::default()
    };
    let rules = Rules::new(machine, settings).expect(preset);
    let mut ledger = Ledger::new(Arc::new(rules));
    let devices = (0..50).map(|id| {
        let numa = (id % 3 > 0).then(|| vec![id % 2]);
        (
            format!("<device&{id}>").into(),
            Device {
                numa,
                healthy: id != 7,
            },
        )
    });
    ledger.set_devices("example.com/gpu".into(), Some(devices.collect()));
    let amounts: ResourceList = [("cpu", "3"), ("memory", "1Gi"), ("example.com/gpu", "1")]
        .into_iter()
        .map(|(name, amount)| (name.into(), amount.parse().expect("a quantity")))
        .collect();
    for number in 0..pods {
        let pod = Arc::new(Pod {
            uid: format!("uid{number}").into(),
            name: format!("pod \"{number}\""),
            init_containers: Vec::new(),
            containers: vec![Container {
                name: "main".into(),
                restartable: false,
                requests: amounts.clone(),
                limits: amounts.clone(),
            }],
            pod_requests: None,
            pod_limits: None,
        });
        ledger.admit(&pod, &mut NoPreference).expect("a new pod");
    }
    ledger
}

/// The texts of the elements with this name.
fn texts(svg: &str, element: &str) -> Vec<String> {
    let start = format!("<{element}");
    let parts = svg.split(start.as_str()).skip(1);
    let text = |part: &str| {
        let text = part.split_once('>')?.1.split('<').next()?;
        Some(text.replace("&quot;", "\"").replace("&amp;", "&"))
    };
    parts.filter_map(text).collect()
}

#[test]
fn an_svg_shows_every_cpu_core_cache_socket_and_pod() {
    for preset in ["epyc-9654-nps4", "dgx-h100"] {
        let ledger = full_node(preset, 40);
        let machine = ledger.rules().machine();
        let occupancy = ledger.occupancy();
        let layout = MachineLayout::new(machine, &occupancy);
        let svg = svg::draw(
            &layout,
            &occupancy,
            Caption {
                title: "this machine",
                subtitle: "its settings",
                distances: Some(machine),
            },
        );
        let shown = texts(&svg, "text");
        let tooltips = texts(&svg, "title");
        assert_eq!(tooltips[0], "this machine");
        for node in machine.nodes() {
            assert!(shown.contains(&format!("NUMA node {}", node.id)));
            for core in &node.cores {
                assert!(shown.contains(&format!("socket {}", core.socket)));
                assert!(core.l3.is_none_or(|l3| shown.contains(&format!("L3 {l3}"))));
                for cpu in &core.threads {
                    assert!(shown.contains(&cpu.to_string()), "{preset}: CPU {cpu}");
                }
            }
        }
        assert!(occupancy.holders.len() > 26);
        for (index, holder) in occupancy.holders.iter().enumerate() {
            let letters = pinfold_render::palette::letters(index);
            let legend = |text: &&String| text.starts_with(&format!("{}, CPUs", holder.name));
            assert!(shown.iter().any(|text| legend(&text)), "{}", holder.name);
            let named = format!(": {letters} {}", holder.name);
            let cells = tooltips.iter().filter(|tip| tip.ends_with(&named));
            assert!(cells.count() >= holder.cpus.len(), "{named}");
        }
        assert!(
            shown
                .iter()
                .any(|text| text.starts_with("distance from a NUMA node"))
        );
        assert!(svg.contains("prefers-color-scheme:dark"));
    }
}

fn every_picture(mut check: impl FnMut(&str, &Ledger, &MachineLayout, &Occupancy)) {
    for preset in PRESETS {
        for pods in [0, 1, 40] {
            let ledger = full_node(preset.name, pods);
            let occupancy = ledger.occupancy();
            let layout = MachineLayout::new(ledger.rules().machine(), &occupancy);
            check(preset.name, &ledger, &layout, &occupancy);
        }
    }
}

/// The text without escape sequences.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or("", |(_, rest)| rest)
    })
}

#[test]
fn colour_adds_nothing_but_colour() {
    every_picture(|name, _, layout, occupancy| {
        for legend in [Legend::Names, Legend::Holdings] {
            let coloured = grid::draw(layout, occupancy, legend, WIDTH, Colour::Ansi);
            let text = grid::draw(layout, occupancy, legend, WIDTH, Colour::Plain);
            assert_eq!(plain(&coloured), text, "{name}");
        }
    });
}

#[test]
fn no_line_is_wider_than_the_limit() {
    every_picture(|name, ledger, layout, occupancy| {
        let text = grid::draw(layout, occupancy, Legend::Names, WIDTH, Colour::Plain);
        let outline = tree::draw(ledger.rules().machine(), WIDTH);
        for line in text.lines().chain(outline.lines()) {
            assert!(line.chars().count() <= WIDTH, "{name}: {line}");
        }
    });
}

#[test]
fn every_core_has_exactly_one_sign() {
    every_picture(|name, ledger, layout, occupancy| {
        let text = grid::draw(layout, occupancy, Legend::Names, WIDTH, Colour::Plain);
        let below = |line: &&str| {
            line.starts_with("  L3") || line.starts_with("  cores") || line.starts_with("         ")
        };
        let is_sign = |sign: &char| "·#+*@%".contains(*sign) || sign.is_alphabetic();
        let signs: usize = text
            .lines()
            .filter(below)
            .filter(|line| !line.contains("device"))
            .map(|line| {
                line.replace("L3", "")
                    .replace("cores", "")
                    .chars()
                    .filter(is_sign)
                    .count()
            })
            .sum();
        let nodes = ledger.rules().machine().nodes();
        let cores: usize = nodes.iter().map(|node| node.cores.len()).sum();
        assert_eq!(signs, cores, "{name}\n{text}");
    });
}

#[test]
fn every_svg_is_well_formed_for_any_names() {
    every_picture(|name, _, layout, occupancy| {
        let picture = svg::draw(
            layout,
            occupancy,
            Caption {
                title: "</title> & \"more\"",
                ..Caption::default()
            },
        );
        let mut reader = Reader::from_str(&picture);
        let (mut depth, mut cpus) = (0, 0);
        loop {
            match reader.read_event().expect(name) {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth -= 1,
                Event::Text(text) if text.starts_with("CPU ") => cpus += 1,
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "{name}");
        let all: usize = layout.nodes.iter().map(|node| node.cpus().count()).sum();
        assert_eq!(cpus, all, "{name}");
    });
}
