//! The harness that fuzz targets share with the forwarder's scenarios: wires in memory, a builder of desired states.

#[path = "../../crates/forwarder/tests/scenarios/harness/wire.rs"]
pub mod wire;
#[path = "../../crates/forwarder/tests/scenarios/harness/setup.rs"]
pub mod setup;
