//! Tests of the cluster.
