//! Go's rules for text and JSON, as far as they affect the kubelet's files and messages.
//!
//! The kubelet's state files are Go values: parsed and written by `encoding/json`, and protected by a checksum over the
//! text that the `spew` printer makes of the value. A file that the kubelet accepts must be accepted here with the same
//! checksum, and a file that it rejects must be rejected with the same message. So the three forms of a value (JSON in,
//! JSON out, printed for the checksum) are derived from one declaration of its type: see [`value::GoValue`].

pub(crate) mod json;
pub(crate) mod parse;
pub(crate) mod quote;
pub(crate) mod record;
pub(crate) mod value;
