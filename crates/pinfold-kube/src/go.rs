//! What Go's libraries do with text, as far as the kubelet's files and messages show it.
//!
//! The kubelet's state files are Go values: read by `encoding/json`, written by it, and protected by a
//! checksum over the text that the `spew` printer makes of the value in memory. A file that the kubelet
//! would accept must be accepted here, with the same checksum and, if not, with the same words. So the
//! three views of a value (JSON in, JSON out, printed for the checksum) are derived from one declaration
//! of its type: see [`value::GoValue`].

pub(crate) mod json;
pub(crate) mod parse;
pub(crate) mod quote;
pub(crate) mod record;
pub(crate) mod value;
