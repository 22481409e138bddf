//! What all pages of the portal share.

use std::sync::Arc;

use stoa_api::login::{Key, is_host};
use stoa_controller::config::login::Login;
use stoa_controller::datastore::Datastore;
use stoa_controller::login::LoggedIn;

use crate::auth::{PasswordLogin, Peer, secret};
use crate::server::rate::Rate;

/// What all pages share.
#[derive(Debug)]
pub(super) struct Portal {
    pub datastore: Datastore,
    pub login: Arc<PasswordLogin>,
    /// The key of the marks of forms.
    pub key: [u8; 32],
    pub rate: Rate,
    /// Attempts of each host to log in.
    pub of_hosts: Rate,
    /// Attempts of the hosts of each interface.
    pub of_interfaces: Rate<String>,
    /// Attempts of all hosts.
    pub attempts: Rate,
}

impl Portal {
    /// The portal of these datastores.
    pub fn new(datastore: Datastore) -> Arc<Self> {
        Arc::new(Self {
            datastore,
            login: Arc::default(),
            key: secret::random(),
            rate: Rate::default(),
            of_hosts: Rate::default(),
            of_interfaces: Rate::default(),
            attempts: Rate::default(),
        })
    }

    pub fn settings(&self) -> Arc<Login> {
        self.datastore.connection().login()
    }

    /// The host of a client, and its login. `None`: its address is in no network where hosts log in, or Linux does not
    /// know its frames.
    ///
    /// The MAC address is that of the frame that has opened the connection. A neighbour cache would not do: any host of
    /// the link can write to it, so that the login of one would be that of another.
    pub fn host(&self, peer: &Peer) -> Option<LoggedIn> {
        let connection = self.datastore.connection();
        let interface = connection.login_interface(peer.address)?;
        let mac = peer.mac.filter(is_host)?;
        Some(connection.logged_in(Key { interface, mac }))
    }
}
