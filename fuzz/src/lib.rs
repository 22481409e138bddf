//! What fuzz targets share with the stories of the forwarder: wires in memory, and configurations in few words.

#[path = "../../crates/forwarder/tests/stories/harness/wire.rs"]
pub mod wire;
#[path = "../../crates/forwarder/tests/stories/harness/world.rs"]
pub mod world;
