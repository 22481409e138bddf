//! The harness that fuzz targets share with the scenarios of the forwarder: wires in memory and a builder of desired states.

#[path = "../../crates/forwarder/tests/scenarios/harness/wire.rs"]
pub mod wire;
#[path = "../../crates/forwarder/tests/scenarios/harness/setup.rs"]
pub mod setup;
