//! The API of a node, served by a keeper on a made-up machine, as clients see it.

mod bytes;
mod desk;
mod page;
mod probes;
mod routes;
mod wire;
