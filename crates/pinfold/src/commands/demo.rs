//! `pinfold demo`: an example with a known server, some pods, one rejection explained, and a picture.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::device::NoPreference;
use pinfold_core::pod::Pod;
use pinfold_core::remedy::{self, Effort};
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::{self, Caption};
use pinfold_terminal::DeciderArg;

use crate::args::{MachineArg, NodeArgs};
use crate::commands::{explain, simulate};
use crate::exit::Failure;
use crate::node::SimulatedNode;
use crate::output;
use crate::simulation::{SimulationPlan, SimulationStep};
use crate::usage;

/// The pods of the example; the last one does not fit.
const PODS: &str = include_str!("demo/pods.yaml");
const MACHINE: &str = "dgx-h100";

pub(crate) fn run() -> Result<ExitCode, Failure> {
    let node = SimulatedNode::open(&NodeArgs {
        machine: MachineArg {
            machine: MACHINE.to_owned(),
        },
        config: None,
        policy: None,
        scope: None,
        devices: vec!["nvidia.com/gpu=gpu".to_owned()],
        devices_file: None,
        decider: DeciderArg::default(),
    })?;
    let read = pinfold_kube::pod::read("demo", PODS.as_bytes())
        .map_err(|findings| Failure::BadInput(findings.to_string()))?;
    let pods: Vec<Arc<Pod>> = read
        .value
        .into_iter()
        .map(|mut object| {
            object.pod.name.clone_from(&object.meta.name);
            Arc::new(object.pod)
        })
        .collect();
    let steps: Vec<SimulationStep> = (0..pods.len()).map(SimulationStep::Add).collect();
    let plan = SimulationPlan::new(&pods, &steps);
    let simulation = plan.run_on(&node)?;
    let usages = usage::of(&simulation.ledger);
    let occupancy = simulation.ledger.occupancy();
    let mut text = simulate::text(&node, &simulation, &occupancy, &usages);

    if let Some(rejected) = pods.last() {
        let found = remedy::find(
            &simulation.ledger,
            rejected,
            &mut NoPreference,
            Effort::default(),
        );
        let found = found.map_err(|error| Failure::BadInput(error.to_string()))?;
        let _ = write!(text, "\n{}", explain::text(&rejected.name, &found));
    }

    let layout = MachineLayout::new(node.machine(), &occupancy);
    let drawn = svg::draw(
        &layout,
        &occupancy,
        Caption {
            title: &node.name,
            subtitle: &node.described(),
            distances: None,
        },
    );
    let _ = match save(&drawn) {
        Ok(picture) => write!(text, "\nThe same as a picture: {}\n", picture.display()),
        Err(error) => write!(text, "\nNo picture: {error}\n"),
    };
    text.push_str(
        "\nTry next\n  \
         pinfold topology                               this machine\n  \
         pinfold simulate -m epyc-9654-nps4 PODS.yaml   your pods on a known server\n  \
         pinfold check --config kubelet.yaml            before a kubelet starts with it\n",
    );
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the picture into a new folder below the temporary one, which no other user can have prepared.
fn save(picture: &str) -> Result<PathBuf, Failure> {
    const ATTEMPTS: u32 = 64;
    let failure = |path: &Path, error: std::io::Error| {
        Failure::Environment(format!("cannot write {}: {error}", path.display()))
    };
    let mut number = 0;
    loop {
        let name = format!("pinfold-demo-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // `mkdir` does not follow a symbolic link at the last component.
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {
                let file = folder.join("demo.svg");
                let written = File::create_new(&file)
                    .and_then(|mut created| created.write_all(picture.as_bytes()));
                return written
                    .map_err(|error| failure(&file, error))
                    .map(|()| file);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < ATTEMPTS => {
                number += 1;
            }
            Err(error) => return Err(failure(&folder, error)),
        }
    }
}
