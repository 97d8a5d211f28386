//! One file per command.

pub(crate) mod admit;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod conformance;
pub(crate) mod defragment;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod journal;
pub(crate) mod presets;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod topology;
pub(crate) mod upgrade;
