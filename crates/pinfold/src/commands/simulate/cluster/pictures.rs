//! Pictures of a cluster's nodes after a simulation.

use std::path::{Path, PathBuf};

use pinfold_cluster::NodeView;
use pinfold_core::name::NodeName;
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::{self, Caption};

use crate::cluster::SimulatedCluster;
use crate::exit::Failure;
use crate::output;

/// One picture per node: `FILE` is `cluster.svg`, the pictures are `cluster-NODE.svg`.
pub(super) fn draw(nodes: &SimulatedCluster, file: &Path) -> Result<(), Failure> {
    for (name, _) in nodes.cluster.nodes() {
        if let Some(view) = nodes.node_view(name) {
            output::write_file(&picture_file(file, name), picture(name, &view).as_bytes())?;
        }
    }
    Ok(())
}

/// The picture of one node.
pub(super) fn picture(name: &NodeName, view: &NodeView) -> String {
    let layout = MachineLayout::new(&view.machine, &view.occupancy);
    let caption = Caption {
        title: name.as_str(),
        ..Caption::default()
    };
    svg::draw(&layout, &view.occupancy, caption)
}

/// Prints the picture of a cluster's only node.
pub(super) fn print(nodes: &SimulatedCluster) -> Result<(), Failure> {
    let mut names = nodes.cluster.nodes().map(|(name, _)| name);
    let only = names.next().filter(|_| names.next().is_none());
    let view = only.and_then(|name| Some((name, nodes.node_view(name)?)));
    match view {
        Some((name, view)) => output::print_raw(&picture(name, &view)),
        None => Err(Failure::BadInput(
            "-o svg draws one node: --svg FILE writes a picture of every node".to_owned(),
        )),
    }
}

/// The file of a node's picture. Characters of the node's name that could lead to another folder become `_`.
fn picture_file(file: &Path, node: &NodeName) -> PathBuf {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    let name: String = node
        .as_str()
        .chars()
        .map(|letter| if plain(letter) { letter } else { '_' })
        .collect();
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{stem}-{name}.svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_cannot_lead_a_picture_to_another_folder() {
        let file = Path::new("out/cluster.svg");
        let table = [
            ("node-1", "out/cluster-node-1.svg"),
            ("../../etc/x", "out/cluster-.._.._etc_x.svg"),
        ];
        for (node, picture) in table {
            assert_eq!(picture_file(file, &node.into()), Path::new(picture));
        }
    }
}
