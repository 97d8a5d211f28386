//! The reader of snapshots object by object, and the reduction and scrambling of what it reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_kube::json_value::JsonValue;
use pinfold_kube::manifest::stream;
use pinfold_kube::objects::ClusterObjects;
use pinfold_kube::snapshot::{Scrambler, reduce};

fuzz_target!(|text: &[u8]| {
    let mut objects = ClusterObjects::default();
    let mut reduced: Vec<JsonValue> = Vec::new();
    let read = stream::read_json("snapshot", text, &mut |document| {
        let _ = objects.add_object(&document);
        reduced.extend(reduce(&document));
        reduced.len() < 100
    });
    if read.is_err() {
        return;
    }
    let mut scrambler = Scrambler::default();
    reduced.iter_mut().for_each(|object| scrambler.collect(object));
    scrambler.choose();
    for object in &mut reduced {
        scrambler.scramble(object);
        // What is written can be read again.
        let text = object.to_json();
        let mut again = 0;
        let read = stream::read_json("again", text.as_bytes(), &mut |_| {
            again += 1;
            true
        });
        assert!(read.is_ok() && again == 1, "{text}");
    }
});
