//! Filter and scores over NodeResourceTopology objects, as scheduler-plugins computes them.
