//! The author of a change, and the client in use.

use std::net::{IpAddr, SocketAddr};

/// A datastore (RFC 8342).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The edited configuration, which a commit validates.
    Candidate,
    /// The configuration in effect.
    Running,
    /// The configuration at the start.
    Startup,
}

/// The client that made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// The startup file, read at the start or by a reload.
    File,
    /// A command of the shell.
    Shell,
    /// The console.
    Console,
    /// RESTCONF (RFC 8040).
    Restconf,
    /// gNMI.
    Gnmi,
    /// The web page.
    Web,
    /// Stoa itself, which rolls back a commit that was not confirmed.
    Stoa,
}

impl std::fmt::Display for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Client::File => "file",
            Client::Shell => "shell",
            Client::Console => "console",
            Client::Restconf => "RESTCONF",
            Client::Gnmi => "gNMI",
            Client::Web => "web",
            Client::Stoa => "Stoa",
        })
    }
}

/// How the HTTPS server authenticated the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A password, in this request or at the start of the session.
    Password,
    /// A token.
    Token,
    /// A client certificate.
    Certificate,
}

/// How an author is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPath {
    /// The local address and port of the connection.
    pub local: SocketAddr,
    /// The other end; `None`: unknown.
    pub peer: Option<IpAddr>,
    /// `None`: the client does not use the HTTPS server, but SSH for example.
    pub credential: Option<Credential>,
}

/// The author of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The user.
    pub name: String,
    /// The client of the user.
    pub client: Client,
    /// The session that holds a lock, from [`LockGuard::session`]; 0: none.
    pub session: u64,
    /// How the user is connected; `None`: unknown, or independent of the configuration.
    pub access_path: Option<AccessPath>,
}

impl Author {
    /// An author without a lock.
    pub fn new(name: impl Into<String>, client: Client) -> Author {
        Author { name: name.into(), client, session: 0, access_path: None }
    }

    /// The author with this connection.
    pub fn with_access_path(self, access_path: Option<AccessPath>) -> Author {
        Author { access_path, ..self }
    }
}

/// The author of the startup file.
pub(super) fn file_author() -> Author {
    Author::new("startup file", Client::File)
}

/// The author of a rollback without confirmation.
pub(super) fn stoa() -> Author {
    Author::new("stoa", Client::Stoa)
}
