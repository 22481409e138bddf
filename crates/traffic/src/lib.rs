//! Benchmarks that drive the graph, and their reports.
