//! Parses words into a [`MachineDescription`].

use std::ops::Range;

use pinfold_core::cpu_set::CpuId;

use super::LONGEST_DESCRIPTION;
use super::description::{
    Cpuless, MachineDescription, NodeDistances, NodeOption, Numbering, PerNodeOption, Spanned,
    TopologyLevel,
};
use super::lexer::{Token, tokens};
use super::notation_error::{NotationError, NotationProblem};
use crate::kernel_text::{cpu_list, node_list};
use crate::nearest::nearest;
use crate::pci::PciKind;

/// All option keys, for suggestions.
const KEYS: [&str; 17] = [
    "mem",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "l3",
    "numbering",
    "distances",
    "node-ids",
    "cpuless",
    "cpuless-distances",
    "gpu",
    "nic",
    "infiniband",
    "nvme",
    "accelerator",
    "offline",
    "isolated",
    "cxl-memory",
];

const MOST_DEVICES_OF_A_NODE: u32 = 256;
const MOST_HUGE_PAGES: u64 = 1 << 40;

type ParseResult = Result<(), NotationProblem>;

/// Parses a description.
pub(super) fn parse(description: &str) -> Result<MachineDescription, NotationError> {
    if description.len() > LONGEST_DESCRIPTION {
        let limit = LONGEST_DESCRIPTION;
        return Err(NotationProblem::TooLong { limit }.at(description, 0..0));
    }
    let mut parser = Parser::default();
    let mut tokens = tokens(description).into_iter();
    let whole = 0..description.len();
    let mut any = false;
    while let Some(word) = tokens.next() {
        any = true;
        let Token { text, span } = word;
        let outcome = if let Some((key, value)) = text.split_once('=') {
            parser.option(key, value, span.clone())
        } else if let Some((level, count)) = text.split_once(':') {
            parser.level(level, count)
        } else if let Some(threads) = text.strip_prefix("smt").filter(|rest| !rest.is_empty()) {
            parser.level("threads", threads)
        } else {
            let letters = text
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len());
            let (count, level) = text.split_at(letters);
            if count.is_empty() {
                Err(unknown_or_alone(level))
            } else if level.is_empty() {
                match tokens.next() {
                    None => Err(NotationProblem::NumberAlone {
                        number: count.to_owned(),
                    }),
                    Some(next) => {
                        let outcome = parser.level(next.text, count);
                        let about_word =
                            matches!(outcome, Err(NotationProblem::UnknownLevel { .. }));
                        let span = if about_word {
                            next.span
                        } else {
                            span.start..next.span.end
                        };
                        outcome.map_err(|problem| problem.at(description, span))?;
                        continue;
                    }
                }
            } else {
                parser.level(level, count)
            }
        };
        outcome.map_err(|problem| problem.at(description, span))?;
    }
    if !any {
        return Err(NotationProblem::Empty.at(description, 0..0));
    }
    parser
        .finish()
        .map_err(|problem| problem.at(description, whole))
}

fn unknown_or_alone(word: &str) -> NotationProblem {
    match TopologyLevel::of(&word.to_lowercase()) {
        Some(_) => NotationProblem::LevelAlone {
            word: word.to_owned(),
        },
        None => unknown_level(word),
    }
}

fn unknown_level(word: &str) -> NotationProblem {
    let known = TopologyLevel::WORDS.iter().map(|&(known, _)| known);
    NotationProblem::UnknownLevel {
        word: word.to_owned(),
        nearest: nearest(word, known).map(str::to_owned),
    }
}

#[derive(Default)]
struct Parser {
    description_so_far: MachineDescription,
    l3_per_node: Option<u32>,
    seen: Vec<&'static str>,
}

impl Parser {
    fn level(&mut self, word: &str, count: &str) -> ParseResult {
        let level = TopologyLevel::of(&word.to_lowercase()).ok_or_else(|| unknown_level(word))?;
        let limit = CpuId::LIMIT;
        let count = count
            .parse::<u32>()
            .ok()
            .filter(|count| (1..=limit).contains(count))
            .ok_or_else(|| NotationProblem::BadCount {
                found: count.to_owned(),
                limit,
            })?;
        if self
            .description_so_far
            .levels
            .iter()
            .any(|&(known, _)| known == level)
        {
            return Err(NotationProblem::Twice { what: level.name() });
        }
        if let Some(&(inner, _)) = self.description_so_far.levels.last()
            && inner.rank() > level.rank()
        {
            return Err(NotationProblem::WrongOrder {
                outer: level.name(),
                inner: inner.name(),
            });
        }
        self.description_so_far.levels.push((level, count));
        Ok(())
    }

    fn option(&mut self, key_at: &str, value: &str, span: Range<usize>) -> ParseResult {
        let (key, list) = match key_at.split_once('@') {
            Some((key, list)) => (key, Some(list)),
            None => (key_at, None),
        };
        let known = KEYS
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(key));
        let Some(key) = known else {
            return Err(NotationProblem::UnknownOption {
                key: key.to_owned(),
                nearest: nearest(key, KEYS).map(str::to_owned),
            });
        };
        if let Some(node_option) = node_option(key, value)? {
            let nodes = match list {
                None => None,
                Some(list) => Some(node_list(list).map_err(|_| bad(key, NODE_LIST, list))?),
            };
            let value = PerNodeOption {
                option: node_option,
                nodes,
            };
            self.description_so_far
                .node_options
                .push(Spanned { value, span });
            return Ok(());
        }
        if key == "cpuless" {
            return self.cpuless(value, list, span);
        }
        if list.is_some() {
            return Err(NotationProblem::NotPerNode { key });
        }
        if self.seen.contains(&key) {
            return Err(NotationProblem::Twice { what: key });
        }
        self.seen.push(key);
        self.whole_machine_option(key, value, span)
    }

    fn whole_machine_option(
        &mut self,
        key: &'static str,
        value: &str,
        span: Range<usize>,
    ) -> ParseResult {
        let description_so_far = &mut self.description_so_far;
        let cpus = || cpu_list(value).map_err(|_| bad(key, "a list of CPUs such as 0-3,8", value));
        match key {
            "l3" => self.l3_per_node = Some(count(key, value, CpuId::LIMIT)?),
            "numbering" => description_so_far.numbering = Some(numbering(value)?),
            "distances" => {
                let value = distances(value)?;
                description_so_far.distances = Some(Spanned { value, span });
            }
            "cpuless-distances" => description_so_far.cpuless_distances = Some(three(key, value)?),
            "node-ids" => {
                let value = node_list(value).map_err(|_| bad(key, NODE_LIST, value))?;
                description_so_far.node_ids = Some(Spanned { value, span });
            }
            "offline" => {
                description_so_far.offline = Some(Spanned {
                    value: cpus()?,
                    span,
                });
            }
            _ => {
                description_so_far.isolated = Some(Spanned {
                    value: cpus()?,
                    span,
                });
            }
        }
        Ok(())
    }

    fn cpuless(&mut self, value: &str, list: Option<&str>, span: Range<usize>) -> ParseResult {
        let nodes = node_list(value).map_err(|_| bad("cpuless", NODE_LIST, value))?;
        let nearest = match list.map(|list| (list, node_list(list))) {
            None => None,
            Some((_, Ok(one))) if one.len() == 1 => one.first().copied(),
            Some((list, _)) => return Err(bad("cpuless", "one NUMA id after \"@\"", list)),
        };
        let value = Cpuless { nodes, nearest };
        self.description_so_far
            .cpuless
            .push(Spanned { value, span });
        Ok(())
    }

    /// Adds the levels that are not written.
    fn finish(mut self) -> Result<MachineDescription, NotationProblem> {
        let levels = &mut self.description_so_far.levels;
        let has = |levels: &[(TopologyLevel, u32)], level| {
            levels.iter().any(|&(known, _)| known == level)
        };
        if !has(levels, TopologyLevel::Socket) {
            levels.insert(0, (TopologyLevel::Socket, 1));
        }
        if !has(levels, TopologyLevel::Numa) {
            levels.insert(1, (TopologyLevel::Numa, 1));
        }
        if !has(levels, TopologyLevel::Core) {
            let threads = levels
                .iter()
                .position(|&(known, _)| known == TopologyLevel::Thread);
            levels.insert(threads.unwrap_or(levels.len()), (TopologyLevel::Core, 1));
        }
        match (has(levels, TopologyLevel::L3), self.l3_per_node) {
            (true, Some(_)) => return Err(NotationProblem::Twice { what: "l3" }),
            (true, None) | (false, Some(0)) => {}
            (false, None) => levels.insert(1, (TopologyLevel::L3, 1)),
            (false, Some(caches)) => share_caches(levels, caches)?,
        }
        if !has(levels, TopologyLevel::Thread) {
            levels.push((TopologyLevel::Thread, 1));
        }
        let found = levels.iter().fold(1_u64, |product, &(_, count)| {
            product.saturating_mul(u64::from(count))
        });
        let limit = u64::from(CpuId::LIMIT);
        if found > limit {
            let what = "CPUs";
            return Err(NotationProblem::TooMany { what, found, limit });
        }
        Ok(self.description_so_far)
    }
}

/// Splits the cores of every node into as many groups as there are caches.
fn share_caches(levels: &mut Vec<(TopologyLevel, u32)>, caches: u32) -> ParseResult {
    for (level, cores) in levels.iter_mut() {
        if *level == TopologyLevel::Core {
            if *cores % caches != 0 {
                let cores = *cores;
                return Err(NotationProblem::UnevenCaches { cores, caches });
            }
            *cores /= caches;
        }
    }
    let numa = levels
        .iter()
        .position(|&(level, _)| level == TopologyLevel::Numa);
    levels.insert(numa.map_or(1, |at| at + 1), (TopologyLevel::L3, caches));
    Ok(())
}

const NODE_LIST: &str = "a list of NUMA ids such as 0,2-3";

fn bad(key: &'static str, expected: &'static str, found: &str) -> NotationProblem {
    NotationProblem::BadValue {
        key,
        expected,
        found: found.to_owned(),
        nearest: None,
    }
}

fn count(key: &'static str, value: &str, limit: u32) -> Result<u32, NotationProblem> {
    let number = value.parse().ok().filter(|&count| count <= limit);
    number.ok_or_else(|| bad(key, "a number", value))
}

/// Parses a per-node option; `None` for other keys.
fn node_option(key: &'static str, value: &str) -> Result<Option<NodeOption>, NotationProblem> {
    let kind = match key {
        "gpu" => PciKind::Gpu,
        "nic" => PciKind::Nic,
        "infiniband" => PciKind::Infiniband,
        "nvme" => PciKind::Nvme,
        "accelerator" => PciKind::Accelerator,
        "cxl-memory" => PciKind::CxlMemory,
        "mem" => {
            let bytes = size(value).ok_or_else(|| bad(key, "a size such as 64Gi", value))?;
            return Ok(Some(NodeOption::Memory(bytes)));
        }
        "hugepages-2Mi" | "hugepages-1Gi" => {
            let size_kib = if key == "hugepages-2Mi" {
                2 << 10
            } else {
                1 << 20
            };
            let count = value.parse().ok().filter(|&count| count <= MOST_HUGE_PAGES);
            let count = count.ok_or_else(|| bad(key, "a number of pages", value))?;
            return Ok(Some(NodeOption::HugePages { size_kib, count }));
        }
        _ => return Ok(None),
    };
    let count = value
        .parse()
        .ok()
        .filter(|&count| count <= MOST_DEVICES_OF_A_NODE);
    let count = count.ok_or_else(|| bad(key, "a number of devices, up to 256", value))?;
    Ok(Some(NodeOption::Devices { kind, count }))
}

fn numbering(value: &str) -> Result<Numbering, NotationProblem> {
    const KNOWN: [(&str, Numbering); 5] = [
        ("split", Numbering::Split),
        ("adjacent", Numbering::Adjacent),
        ("interleaved", Numbering::Interleaved),
        ("intel", Numbering::Split),
        ("amd", Numbering::Split),
    ];
    let found = KNOWN
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(value));
    found
        .map(|&(_, numbering)| numbering)
        .ok_or_else(|| NotationProblem::BadValue {
            key: "numbering",
            expected: "split, adjacent or interleaved",
            found: value.to_owned(),
            nearest: nearest(value, KNOWN.map(|(known, _)| known)).map(str::to_owned),
        })
}

const DISTANCES: &str = "two or three numbers up to 255 (10,12,21), or rows separated by \"/\"";

fn row(text: &str) -> Option<Vec<u32>> {
    let numbers = text
        .split(',')
        .map(|number| number.parse::<u8>().ok().map(u32::from));
    numbers.collect()
}

fn distances(value: &str) -> Result<NodeDistances, NotationProblem> {
    let rows: Option<Vec<Vec<u32>>> = value.split('/').map(row).collect();
    let rows = rows.ok_or_else(|| bad("distances", DISTANCES, value))?;
    match rows.as_slice() {
        [one] => match *one.as_slice() {
            [own, other] => Ok(NodeDistances::Rule([own, other, other])),
            [own, socket, other] => Ok(NodeDistances::Rule([own, socket, other])),
            _ => Err(bad("distances", DISTANCES, value)),
        },
        _ => Ok(NodeDistances::Matrix(rows)),
    }
}

fn three(key: &'static str, value: &str) -> Result<[u32; 3], NotationProblem> {
    let numbers = row(value).and_then(|row| <[u32; 3]>::try_from(row).ok());
    numbers.ok_or_else(|| bad(key, "three numbers up to 255, such as 14,24,26", value))
}

/// Parses a size: `64Gi`, `512Mi`, `2Ti`, `100G`, or bytes.
fn size(text: &str) -> Option<u64> {
    const LARGEST: u64 = 1 << 60;
    let letters = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(letters);
    let unit: u64 = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (bytes <= LARGEST).then_some(bytes)
}
