//! Lists of CPUs in the kernel's format. A printed set parses as the same set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::cpu_set::{CpuList, CpuSet};

fuzz_target!(|text: &str| {
    let Ok(list) = CpuList::parse(text) else {
        return;
    };
    let Ok(set) = list.to_set() else {
        return;
    };
    assert_eq!(list.len(), set.len() as u64);
    let printed = set.to_string();
    let again: CpuSet = CpuList::parse(&printed)
        .and_then(|list| list.to_set())
        .expect("a printed set is one");
    assert_eq!(again, set);
    assert_eq!(again.to_string(), printed);
});
