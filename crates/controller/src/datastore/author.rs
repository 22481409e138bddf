//! Who changes which datastore, and by which client.

use super::access::Way;

/// Which of the datastores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// What is being worked on; valid only when it is committed.
    Candidate,
    /// What is in force.
    Running,
    /// What Stoa begins with.
    Startup,
}

/// By which client a change came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// The file that Stoa was started with, read at the start or again.
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
    /// Stoa itself: a commit that was not confirmed.
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

/// Who changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The user.
    pub name: String,
    /// How the user came.
    pub client: Client,
    /// The session that holds a lock, from [`Held::session`]; 0: none.
    pub session: u64,
    /// The way on which the user is connected; `None`: it is not known, or nothing that is configured can cut it.
    pub way: Option<Way>,
}

impl Author {
    /// Somebody without a lock.
    pub fn new(name: impl Into<String>, client: Client) -> Author {
        Author { name: name.into(), client, session: 0, way: None }
    }

    /// The same, connected on this way.
    pub fn on(self, way: Option<Way>) -> Author {
        Author { way, ..self }
    }
}
