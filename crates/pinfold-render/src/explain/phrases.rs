//! Amounts, plurals, wrapping and clipping of text.

use pinfold_core::decision::ResourceManager;
use pinfold_core::node_set::NodeSet;

use crate::amount;

/// The width of lines that do not go to a terminal.
pub const WIDTH: usize = 80;

/// `1 pod`, `2 pods`.
pub(super) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `NUMA node 1`, `NUMA nodes 0-1`.
pub(super) fn nodes(nodes: NodeSet) -> String {
    match nodes.len() {
        0 => "no NUMA node".to_owned(),
        1 => format!("NUMA node {nodes}"),
        _ => format!("NUMA nodes {nodes}"),
    }
}

/// The NUMA nodes of an affinity. If they are not preferred, CPUs and devices that do not fit there are taken from
/// other nodes.
pub(super) fn aligned(mask: NodeSet, preferred: bool) -> String {
    let first = if preferred { "" } else { " first" };
    format!("{}{first}", nodes(mask))
}

/// Exact if that is a short number, otherwise rounded: two different amounts should not look equal.
pub(super) fn bytes(amount: u64) -> String {
    const LONGEST: u64 = 100_000;
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let exact = units
        .into_iter()
        .find(|&(_, shift)| amount > 0 && amount.is_multiple_of(1 << shift));
    match exact {
        Some((unit, shift)) if amount >> shift < LONGEST => format!("{} {unit}", amount >> shift),
        _ => amount::bytes(amount),
    }
}

/// An amount with its unit: `8 CPUs`, `4 GiB`, `2 devices`.
pub(super) fn amount_of(manager: ResourceManager, amount: u64) -> String {
    match manager {
        ResourceManager::Cpu => plural(amount, "CPU", "CPUs"),
        ResourceManager::Memory => bytes(amount),
        ResourceManager::Device => plural(amount, "device", "devices"),
    }
}

/// An amount without its unit, for columns with a heading.
pub(super) fn bare(manager: ResourceManager, amount: u64) -> String {
    match manager {
        ResourceManager::Memory => bytes(amount),
        ResourceManager::Cpu | ResourceManager::Device => amount.to_string(),
    }
}

/// At most `width` characters, the last one an ellipsis if something was cut.
pub(super) fn clip(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => text.to_owned(),
    }
}

/// Lines of at most `width` columns with an indentation; a word that is longer than a line is cut.
pub(super) fn wrap(text: &str, indent: usize, width: usize) -> String {
    let room = width.saturating_sub(indent).max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + rest.len() > room {
            lines.push(String::new());
            used = 0;
        }
        while !rest.is_empty() {
            if used == room {
                lines.push(String::new());
                used = 0;
            }
            let blank = usize::from(used > 0 && rest.len() == word.chars().count());
            let take = rest.len().min(room - used - blank);
            if let Some(line) = lines.last_mut() {
                line.push_str(&" ".repeat(blank));
                line.extend(rest.drain(..take));
            }
            used += blank + take;
        }
    }
    let blanks = " ".repeat(indent);
    lines
        .into_iter()
        .map(|line| format!("{blanks}{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_never_wider_than_the_screen() {
        let text = format!("short {} words {}", "x".repeat(200), "and more ".repeat(30));
        for indent in [0, 2, 4, 79] {
            let wrapped = wrap(&text, indent, WIDTH);
            assert!(
                wrapped.lines().all(|line| line.chars().count() <= WIDTH),
                "{wrapped}"
            );
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            assert_eq!(letters(&wrapped), letters(&text));
        }
    }

    #[test]
    fn amounts_are_exact_where_that_is_short() {
        for (amount, text) in [
            (0, "0 B"),
            (4 << 30, "4 GiB"),
            ((4 << 30) - (1 << 20), "4095 MiB"),
            ((4 << 30) - 1, "4 GiB"),
            (1 << 46, "65536 GiB"),
            (1 << 50, "1024 TiB"),
        ] {
            assert_eq!(bytes(amount), text);
        }
    }
}
