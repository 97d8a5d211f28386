use proptest::prelude::*;

use super::*;
use crate::volcano::test_nodes::{any_cpus, cpus, machine, odd_machine};

fn sound(detail: &CpuDetail, available: &str, needed: usize) -> String {
    let taken = take(detail, &cpus(available), needed, Fidelity::Sound);
    taken.expect("enough CPUs").to_string()
}

#[test]
fn a_core_number_that_two_sockets_share_is_two_cores() {
    // Two sockets with cores 0 and 1 of two threads each.
    let detail = machine(2, 2, 2);
    assert_eq!(sound(&detail, "0-7", 2), "0-1");
    let exact = take(&detail, detail.all(), 2, Fidelity::Exact).expect("enough CPUs");
    assert_eq!(exact.to_string(), "0-1,4-5", "twice the request");
}

#[test]
fn whole_sockets_are_taken_before_whole_cores_and_those_before_threads() {
    let detail = machine(2, 2, 2);
    let table = [
        ("0-7", 0, ""),
        ("0-7", 4, "0-3"),
        // A socket with a busy CPU is not whole.
        ("0-2,4-7", 4, "4-7"),
        ("0-7", 6, "0-5"),
        ("0-7", 5, "0-4"),
        // The core of the socket with the fewest whole cores is taken first.
        ("0,2-7", 2, "2-3"),
        // One thread: on the fullest socket, the core with the fewest free threads.
        ("0-6", 1, "6"),
        ("1-7", 1, "1"),
        // The odd thread comes from the socket of the taken core.
        ("0-1,4-7", 3, "0-1,4"),
    ];
    for (available, needed, expected) in table {
        assert_eq!(
            sound(&detail, available, needed),
            expected,
            "{available} {needed}"
        );
    }
}

#[test]
fn a_request_for_too_many_cpus_is_rejected_with_both_numbers() {
    let error = NotEnoughCpus {
        needed: 3,
        available: 2,
    };
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        // CPU 9 does not exist.
        let found = take(&machine(1, 2, 2), &cpus("0,3,9"), 3, fidelity);
        assert_eq!(found, Err(error));
    }
}

proptest! {
    #[test]
    fn sound_mode_takes_exactly_the_needed_number_of_available_cpus(
        detail in odd_machine(), available in any_cpus(), needed in 0_usize..80,
    ) {
        match take(&detail, &available, needed, Fidelity::Sound) {
            Ok(taken) => {
                prop_assert_eq!(taken.len(), needed);
                prop_assert!(taken.is_subset(&available));
                prop_assert!(taken.is_subset(detail.all()));
            }
            Err(_) => prop_assert!(available.common_len(detail.all()) < needed),
        }
    }

    #[test]
    fn exact_mode_takes_at_least_the_needed_number_of_available_cpus(
        detail in odd_machine(), available in any_cpus(), needed in 0_usize..80,
    ) {
        match take(&detail, &available, needed, Fidelity::Exact) {
            Ok(taken) => {
                prop_assert!(taken.len() >= needed);
                prop_assert!(taken.is_subset(&available));
            }
            Err(_) => prop_assert!(available.common_len(detail.all()) < needed),
        }
    }

    #[test]
    fn sound_mode_splits_at_most_one_whole_core(
        sockets in 1_u32..4, cores in 1_u32..5, threads in 1_u32..4,
        available in any_cpus(), needed in 0_usize..40,
    ) {
        let detail = machine(sockets, cores, threads);
        let Ok(taken) = take(&detail, &available, needed, Fidelity::Sound) else {
            return Ok(());
        };
        let broken = detail.cores().iter().filter(|core| {
            let got = core.cpus.common_len(&taken);
            core.cpus.is_subset(&available) && got > 0 && got < core.cpus.len()
        });
        prop_assert!(broken.count() <= 1);
    }
}
