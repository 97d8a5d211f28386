//! [`Emulated`]: the description of a machine, from which both QEMU's arguments and the expectations are made.

use std::fmt::Write;

/// A machine for QEMU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emulated {
    /// Sockets, cores per socket, threads per core. CPUs are numbered threads first.
    pub(crate) shape: (u32, u32, u32),
    /// NUMA nodes in order of their ids.
    pub(crate) nodes: Vec<Node>,
    /// Distances beyond the 10 of a node to itself, both ways.
    pub(crate) distances: Vec<(usize, usize, u32)>,
    /// The NUMA nodes that have a network card on a PCI bus of their own.
    pub(crate) network_cards: Vec<usize>,
    /// Latency in nanoseconds and bandwidth in MB/s from a node with CPUs to memory.
    pub(crate) attributes: Vec<(usize, usize, u32, u32)>,
}

/// A NUMA node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    /// First CPU and how many.
    pub(crate) cpus: Option<(u32, u32)>,
    /// Memory.
    pub(crate) mib: u32,
    /// The node whose CPUs reach it best; only machines with an HMAT have one.
    pub(crate) initiator: Option<usize>,
}

impl Emulated {
    /// How many CPUs there are.
    pub(crate) fn cpus(&self) -> u32 {
        self.shape.0 * self.shape.1 * self.shape.2
    }

    /// The distance from one node to another.
    pub(crate) fn distance(&self, from: usize, to: usize) -> u32 {
        let said = self
            .distances
            .iter()
            .find(|&&(a, b, _)| (a, b) == (from, to) || (b, a) == (from, to));
        match said {
            Some(&(_, _, distance)) => distance,
            None if from == to => 10,
            None => 20,
        }
    }

    /// QEMU's arguments.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let (sockets, cores, threads) = self.shape;
        let memory: u32 = self.nodes.iter().map(|node| node.mib).sum();
        let hmat = if self.attributes.is_empty() {
            "off"
        } else {
            "on"
        };
        let mut words = vec![
            "-machine".to_owned(),
            format!("q35,hpet=off,hmat={hmat}"),
            // With a thread for each CPU, one may run code that another has just patched: the kernel panics.
            "-accel".to_owned(),
            "tcg,thread=single".to_owned(),
            "-m".to_owned(),
            format!("{memory}M"),
            "-smp".to_owned(),
            format!(
                "{},sockets={sockets},cores={cores},threads={threads}",
                self.cpus()
            ),
        ];
        let mut say = |option: &str, value: String| words.extend([option.to_owned(), value]);
        for (id, node) in self.nodes.iter().enumerate() {
            let mut numa = format!("node,nodeid={id}");
            if let Some((first, count)) = node.cpus {
                let _ = write!(numa, ",cpus={first}-{}", first + count - 1);
            }
            if node.mib > 0 {
                say(
                    "-object",
                    format!("memory-backend-ram,id=m{id},size={}M", node.mib),
                );
                let _ = write!(numa, ",memdev=m{id}");
            }
            if let Some(initiator) = node.initiator {
                let _ = write!(numa, ",initiator={initiator}");
            }
            say("-numa", numa);
        }
        for &(from, to, distance) in &self.distances {
            say("-numa", format!("dist,src={from},dst={to},val={distance}"));
        }
        for &(from, to, latency, bandwidth) in &self.attributes {
            let lane = format!("hmat-lb,initiator={from},target={to},hierarchy=memory");
            say(
                "-numa",
                format!("{lane},data-type=access-latency,latency={latency}"),
            );
            say(
                "-numa",
                format!("{lane},data-type=access-bandwidth,bandwidth={bandwidth}M"),
            );
        }
        for (index, node) in self.network_cards.iter().enumerate() {
            let bus = 64 + 32 * index;
            say(
                "-device",
                format!("pxb-pcie,id=px{index},bus_nr={bus},numa_node={node},bus=pcie.0"),
            );
            say(
                "-device",
                format!("pcie-root-port,id=rp{index},bus=px{index},chassis={index},slot={index}"),
            );
            say("-device", format!("e1000e,bus=rp{index}"));
        }
        words
    }
}
