//! A router without a forwarder, for tests of one interface.

use std::path::Path;
use std::sync::Arc;

use stoa_api::unix;
use stoa_controller::apply::ForwarderConnection;
use stoa_controller::configuration::Configuration;
use stoa_controller::datastore::Datastore;
use stoa_controller::running::Running;

/// Datastores in a folder, with this text as the running configuration. Must be called inside a runtime.
pub fn datastore(folder: &Path, text: &str) -> Datastore {
    let file = folder.join("stoa.json");
    std::fs::write(&file, text).unwrap();
    let configuration = Configuration::read(&file).unwrap();
    let channel = unix::connect_lazily(&folder.join("nobody.sock"));
    let connection = Arc::new(ForwarderConnection::new(channel, configuration));
    let running = Running::beside(&folder.join("stoa.sock"));
    let data = stoa_yang::data::parse(text).unwrap();
    Datastore::open(connection, data, file, folder.to_owned(), running, false)
}
