use pinfold_core::cpu_set::CpuSet;
use proptest::prelude::*;

use super::*;

fn cpus(text: &str) -> CpuSet {
    text.parse().expect("a list of CPUs")
}

/// `ancestors` from the root down; those marked `!` may not be widened.
fn tree(
    ancestors: &[&str],
    own: &str,
    descendants: &[(&str, Option<usize>)],
) -> CgroupTree<CpuSet> {
    CgroupTree {
        ancestors: ancestors
            .iter()
            .map(|text| Ancestor {
                set: cpus(text.trim_start_matches('!')),
                widenable: !text.starts_with('!'),
            })
            .collect(),
        own: cpus(own),
        descendants: descendants
            .iter()
            .map(|&(text, parent)| Descendant {
                set: cpus(text),
                parent,
            })
            .collect(),
    }
}

fn planned_writes(
    version: CgroupVersion,
    tree: &CgroupTree<CpuSet>,
    wanted: &str,
) -> Result<String, TooNarrow> {
    let writes = plan_writes(version, tree, &cpus(wanted))?;
    let texts = writes.iter().map(|step| match step.group_ref {
        GroupRef::Ancestor(at) => format!("above {at}: {}", step.set),
        GroupRef::Own => format!("own: {}", step.set),
        GroupRef::Descendant(at) => format!("below {at}: {}", step.set),
    });
    Ok(texts.collect::<Vec<_>>().join("; "))
}

#[test]
fn writes_are_in_an_order_that_v1_accepts() {
    let all = "!0-7";
    let table = [
        ("nothing to do", tree(&[all, "0-7"], "2-3", &[]), "2-3", ""),
        ("move", tree(&[all, "0-7"], "2-3", &[]), "4-5", "own: 4-5"),
        (
            "grow beyond two parents",
            tree(&[all, "0-3", "0-1"], "0-1", &[]),
            "0-5",
            "above 1: 0-5; above 2: 0-5; own: 0-5",
        ),
        (
            "a parent that is not configured gets what its own parent has",
            tree(&[all, "0-6", ""], "", &[]),
            "1-2",
            "above 2: 0-6; own: 1-2",
        ),
        (
            "shrink: the child first",
            tree(&[all], "0-3", &[("0-3", None)]),
            "0-1",
            "below 0: 0-1; own: 0-1",
        ),
        (
            "move: both for a moment",
            tree(&[all], "0-1", &[("0-1", None), ("1", Some(0))]),
            "4-5",
            "own: 0-1,4-5; below 0: 0-1,4-5; below 1: 4-5; below 0: 4-5; own: 4-5",
        ),
        (
            "a child that fits and one that is not configured stay",
            tree(&[all], "0-3", &[("1", None), ("", None)]),
            "0-1",
            "own: 0-1",
        ),
    ];
    for (what, tree, wanted, expected) in table {
        let planned = planned_writes(CgroupVersion::V1, &tree, wanted);
        assert_eq!(planned.as_deref(), Ok(expected), "{what}");
    }
}

#[test]
fn v2_widens_the_same_ancestors_and_leaves_descendants_to_the_kernel() {
    let table = [
        (tree(&["!", "", ""], "", &[]), "2-3", "own: 2-3"),
        (
            tree(&["!", "0-1", ""], "0", &[("0", None)]),
            "2",
            "above 1: 0-2; own: 2",
        ),
        (tree(&["!0-3"], "2", &[]), "2", ""),
    ];
    for (tree, wanted, expected) in table {
        assert_eq!(
            planned_writes(CgroupVersion::V2, &tree, wanted).as_deref(),
            Ok(expected)
        );
    }
}

#[test]
fn ancestors_of_the_administrator_are_never_widened() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let narrow = tree(&["!0-7", "!0-3", "0-3"], "0", &[]);
        assert_eq!(
            planned_writes(version, &narrow, "3-4"),
            Err(TooNarrow(1)),
            "{version}"
        );
        assert!(planned_writes(version, &narrow, "3").is_ok(), "{version}");
    }
}

/// A kernel with the rules of v1: the sets of a tree, with processes in the leaf.
fn kernel_accepts(tree: &mut CgroupTree<CpuSet>, step: &CpusetWrite<CpuSet>) -> Result<(), String> {
    if step.set.is_empty() {
        return Err("a group with processes would have nothing".to_owned());
    }
    let parent = match step.group_ref {
        GroupRef::Ancestor(0) => return Err("the root cannot be written".to_owned()),
        GroupRef::Ancestor(at) => tree.ancestors[at - 1].set.clone(),
        GroupRef::Own => tree.ancestors.last().expect("a parent").set.clone(),
        GroupRef::Descendant(at) => match tree.descendants[at].parent {
            Some(parent) => tree.descendants[parent].set.clone(),
            None => tree.own.clone(),
        },
    };
    if !step.set.is_subset(&parent) {
        return Err(format!("{step:?} is more than {parent}"));
    }
    let children: Vec<CpuSet> = match step.group_ref {
        GroupRef::Ancestor(at) if at + 1 < tree.ancestors.len() => {
            vec![tree.ancestors[at + 1].set.clone()]
        }
        GroupRef::Ancestor(_) => vec![tree.own.clone()],
        GroupRef::Own | GroupRef::Descendant(_) => {
            let who = match step.group_ref {
                GroupRef::Descendant(at) => Some(at),
                _ => None,
            };
            let below = tree.descendants.iter().filter(|group| group.parent == who);
            below.map(|group| group.set.clone()).collect()
        }
    };
    if let Some(child) = children.iter().find(|child| !child.is_subset(&step.set)) {
        return Err(format!("{step:?} is less than {child} below"));
    }
    match step.group_ref {
        GroupRef::Ancestor(at) => tree.ancestors[at].set = step.set.clone(),
        GroupRef::Own => tree.own = step.set.clone(),
        GroupRef::Descendant(at) => tree.descendants[at].set = step.set.clone(),
    }
    Ok(())
}

fn subset(of: &CpuSet, mask: u8) -> CpuSet {
    of.iter().filter(|cpu| mask >> cpu.get() & 1 == 1).collect()
}

prop_compose! {
    /// A tree that v1 could have: every set within its parent.s, some not configured yet.
    fn trees()(
        above in prop::collection::vec(any::<u8>(), 0..4),
        own in any::<u8>(),
        below in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>()), 0..5),
    ) -> CgroupTree<CpuSet> {
        let mut tree = tree(&["!0-7"], "", &[]);
        let mut last = cpus("0-7");
        for mask in above {
            last = subset(&last, mask);
            tree.ancestors.push(Ancestor { set: last.clone(), widenable: true });
        }
        tree.own = subset(&last, own);
        for (mask, parent) in below {
            let parent = parent.index(tree.descendants.len() + 1).checked_sub(1);
            let set = parent.map_or(&tree.own, |at| &tree.descendants[at].set);
            let set = subset(set, mask);
            tree.descendants.push(Descendant { set, parent });
        }
        tree
    }
}

proptest! {
    #[test]
    fn v1_rejects_none_of_the_planned_writes(mut tree in trees(), wanted in 1u8..) {
        let wanted = subset(&cpus("0-7"), wanted);
        let before = tree.clone();
        for step in plan_writes(CgroupVersion::V1, &tree, &wanted).expect("all parents are widenable") {
            let taken = kernel_accepts(&mut tree, &step);
            prop_assert!(taken.is_ok(), "{:?} in {before:?} for {wanted}", taken);
        }
        prop_assert_eq!(&tree.own, &wanted);
        for (old, new) in before.ancestors.iter().zip(&tree.ancestors) {
            prop_assert!(old.set.is_subset(&new.set), "a parent lost something");
        }
        for (old, new) in before.descendants.iter().zip(&tree.descendants) {
            prop_assert_eq!(old.set.is_empty(), new.set.is_empty());
        }
    }
}
