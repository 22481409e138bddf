//! The binary: wiring and command line, no logic.

fn main() {}
