//! What fuzz targets share with the scenarios of the forwarder: wires in memory, and configurations in few words.

#[path = "../../crates/forwarder/tests/scenarios/harness/wire.rs"]
pub mod wire;
#[path = "../../crates/forwarder/tests/scenarios/harness/setup.rs"]
pub mod setup;
