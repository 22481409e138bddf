//! The harness that fuzz targets share with the forwarder's scenarios: wires in memory, a builder of
//! desired states, the configuration of the target `graph` and its forwarders.

#[path = "../../crates/forwarder/tests/scenarios/harness/wire.rs"]
pub mod wire;
#[path = "../../crates/forwarder/tests/scenarios/harness/setup.rs"]
pub mod setup;
#[path = "../../crates/forwarder/tests/scenarios/harness/everything.rs"]
pub mod everything;
#[path = "../../crates/forwarder/tests/scenarios/harness/stepped.rs"]
pub mod stepped;
