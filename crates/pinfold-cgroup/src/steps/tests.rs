use pinfold_core::cpu_set::CpuSet;
use proptest::prelude::*;

use super::*;

fn cpus(text: &str) -> CpuSet {
    text.parse().expect("a list of CPUs")
}

/// `above` from the root down; the groups marked `!` are somebody else's.
fn family(above: &[&str], own: &str, below: &[(&str, Option<usize>)]) -> Family<CpuSet> {
    Family {
        above: above
            .iter()
            .map(|text| Above {
                set: cpus(text.trim_start_matches('!')),
                ours: !text.starts_with('!'),
            })
            .collect(),
        own: cpus(own),
        below: below
            .iter()
            .map(|&(text, parent)| Below {
                set: cpus(text),
                parent,
            })
            .collect(),
    }
}

fn told(version: Version, family: &Family<CpuSet>, wanted: &str) -> Result<String, TooNarrow> {
    let steps = steps(version, family, &cpus(wanted))?;
    let told = steps.iter().map(|step| match step.who {
        Who::Above(at) => format!("above {at}: {}", step.set),
        Who::Own => format!("own: {}", step.set),
        Who::Below(at) => format!("below {at}: {}", step.set),
    });
    Ok(told.collect::<Vec<_>>().join("; "))
}

#[test]
fn writes_come_in_the_order_that_v1_takes() {
    let all = "!0-7";
    let table = [
        (
            "nothing to do",
            family(&[all, "0-7"], "2-3", &[]),
            "2-3",
            "",
        ),
        ("move", family(&[all, "0-7"], "2-3", &[]), "4-5", "own: 4-5"),
        (
            "grow beyond two parents",
            family(&[all, "0-3", "0-1"], "0-1", &[]),
            "0-5",
            "above 1: 0-5; above 2: 0-5; own: 0-5",
        ),
        (
            "a parent that nobody filled gets what its own parent has",
            family(&[all, "0-6", ""], "", &[]),
            "1-2",
            "above 2: 0-6; own: 1-2",
        ),
        (
            "shrink: the child first",
            family(&[all], "0-3", &[("0-3", None)]),
            "0-1",
            "below 0: 0-1; own: 0-1",
        ),
        (
            "move: both for a moment",
            family(&[all], "0-1", &[("0-1", None), ("1", Some(0))]),
            "4-5",
            "own: 0-1,4-5; below 0: 0-1,4-5; below 1: 4-5; below 0: 4-5; own: 4-5",
        ),
        (
            "a child that fits and one that nobody filled stay",
            family(&[all], "0-3", &[("1", None), ("", None)]),
            "0-1",
            "own: 0-1",
        ),
    ];
    for (what, family, wanted, expected) in table {
        let told = told(Version::V1, &family, wanted);
        assert_eq!(told.as_deref(), Ok(expected), "{what}");
    }
}

#[test]
fn v2_widens_the_same_parents_and_leaves_children_to_the_kernel() {
    let table = [
        (family(&["!", "", ""], "", &[]), "2-3", "own: 2-3"),
        (
            family(&["!", "0-1", ""], "0", &[("0", None)]),
            "2",
            "above 1: 0-2; own: 2",
        ),
        (family(&["!0-3"], "2", &[]), "2", ""),
    ];
    for (family, wanted, expected) in table {
        assert_eq!(told(Version::V2, &family, wanted).as_deref(), Ok(expected));
    }
}

#[test]
fn what_an_administrator_narrowed_is_never_widened() {
    for version in [Version::V1, Version::V2] {
        let narrow = family(&["!0-7", "!0-3", "0-3"], "0", &[]);
        assert_eq!(
            told(version, &narrow, "3-4"),
            Err(TooNarrow(1)),
            "{version}"
        );
        assert!(told(version, &narrow, "3").is_ok(), "{version}");
    }
}

/// A kernel with the rules of v1: the sets of a family, and a `processes` in the leaf.
fn kernel_takes(family: &mut Family<CpuSet>, step: &Step<CpuSet>) -> Result<(), String> {
    if step.set.is_empty() {
        return Err("a group with processes would have nothing".to_owned());
    }
    let parent = match step.who {
        Who::Above(0) => return Err("the root cannot be written".to_owned()),
        Who::Above(at) => family.above[at - 1].set.clone(),
        Who::Own => family.above.last().expect("a parent").set.clone(),
        Who::Below(at) => match family.below[at].parent {
            Some(parent) => family.below[parent].set.clone(),
            None => family.own.clone(),
        },
    };
    if !step.set.is_subset(&parent) {
        return Err(format!("{step:?} is more than {parent}"));
    }
    let children: Vec<CpuSet> = match step.who {
        Who::Above(at) if at + 1 < family.above.len() => vec![family.above[at + 1].set.clone()],
        Who::Above(_) => vec![family.own.clone()],
        Who::Own | Who::Below(_) => {
            let who = match step.who {
                Who::Below(at) => Some(at),
                _ => None,
            };
            let below = family.below.iter().filter(|group| group.parent == who);
            below.map(|group| group.set.clone()).collect()
        }
    };
    if let Some(child) = children.iter().find(|child| !child.is_subset(&step.set)) {
        return Err(format!("{step:?} is less than {child} below"));
    }
    match step.who {
        Who::Above(at) => family.above[at].set = step.set.clone(),
        Who::Own => family.own = step.set.clone(),
        Who::Below(at) => family.below[at].set = step.set.clone(),
    }
    Ok(())
}

fn subset(of: &CpuSet, mask: u8) -> CpuSet {
    of.iter().filter(|cpu| mask >> cpu.get() & 1 == 1).collect()
}

prop_compose! {
    /// A family that v1 could have: everybody within the one above, some not filled yet.
    fn families()(
        above in prop::collection::vec(any::<u8>(), 0..4),
        own in any::<u8>(),
        below in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>()), 0..5),
    ) -> Family<CpuSet> {
        let mut tree = family(&["!0-7"], "", &[]);
        let mut last = cpus("0-7");
        for mask in above {
            last = subset(&last, mask);
            tree.above.push(Above { set: last.clone(), ours: true });
        }
        tree.own = subset(&last, own);
        for (mask, parent) in below {
            let parent = parent.index(tree.below.len() + 1).checked_sub(1);
            let set = parent.map_or(&tree.own, |at| &tree.below[at].set);
            let set = subset(set, mask);
            tree.below.push(Below { set, parent });
        }
        tree
    }
}

proptest! {
    #[test]
    fn v1_rejects_no_write_on_any_way(mut tree in families(), wanted in 1u8..) {
        let wanted = subset(&cpus("0-7"), wanted);
        let before = tree.clone();
        for step in steps(Version::V1, &tree, &wanted).expect("all parents are ours") {
            let taken = kernel_takes(&mut tree, &step);
            prop_assert!(taken.is_ok(), "{:?} in {before:?} for {wanted}", taken);
        }
        prop_assert_eq!(&tree.own, &wanted);
        for (old, new) in before.above.iter().zip(&tree.above) {
            prop_assert!(old.set.is_subset(&new.set), "a parent lost something");
        }
        for (old, new) in before.below.iter().zip(&tree.below) {
            prop_assert_eq!(old.set.is_empty(), new.set.is_empty());
        }
    }
}
