//! Operational state as YANG data: what the forwarder says of itself, rendered by the modules that
//! the configuration is written in. It is asked for at each read; nothing is kept.
//!
//! One file for each capability; what is many (routes, neighbours) is only asked for where the
//! path leads there.

mod forwarder;
mod interfaces;
mod path;
pub(crate) mod routing;
mod vrrp;

use serde_json::{Map, Value};
use tonic::Status;
use yang5::data::{Data, DataFormat, DataPrinterFlags, DataTree};

use crate::apply::ForwarderConnection;
use crate::operational_state::{OperationalState, StateSection, RouteFilter};
use crate::yang;

/// Routes of one table that are told when nobody says how many.
pub const ROUTES_AT_MOST: usize = 1_000;

/// Why the state cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The forwarder does not answer.
    #[error("the forwarder does not answer: {}", .0.message())]
    Unreachable(#[from] Status),
    /// What it says does not fit the modules: a fault of the program.
    #[error("the state does not fit the YANG modules: {0}; please report this")]
    Model(String),
    /// Nothing stands there.
    #[error("there is no state at {0}")]
    NotThere(String),
}

/// Which parts of the state are desired: what a request for one leaf does not need is not asked for.
#[derive(Clone, Debug)]
pub struct Desired {
    pieces: Vec<StateSection>,
    /// Only the interface of this name.
    interface: Option<String>,
    routes: RouteFilter,
}

impl Desired {
    /// Everything but neighbours and the routes themselves, of which there may be very many: how
    /// many routes there are is in it.
    pub fn overview() -> Desired {
        Desired::of(&StateSection::OVERVIEW)
    }

    /// What stands at or below a data path such as
    /// `/ietf-interfaces:interfaces/interface[name='a']/statistics`. "/" is the overview.
    ///
    /// Neighbours are told at or below `interface`; routes at or below `/ietf-routing:routing/ribs`,
    /// the first [`ROUTES_AT_MOST`] of each table. A path that leads to no state asks for nothing.
    pub fn at(path: &str) -> Desired {
        path::desired(path)
    }

    /// With so many routes of each table at most.
    #[must_use]
    pub fn routes_at_most(mut self, at_most: usize) -> Desired {
        self.routes.at_most = at_most;
        self
    }

    /// Whether nothing is asked for.
    pub fn is_nothing(&self) -> bool {
        self.pieces.is_empty()
    }

    fn of(pieces: &[StateSection]) -> Desired {
        let routes = RouteFilter { table: None, at_most: ROUTES_AT_MOST };
        Desired { pieces: pieces.to_vec(), interface: None, routes }
    }

    fn is(&self, piece: StateSection) -> bool {
        self.pieces.contains(&piece)
    }
}

/// The state that is desired, as a tree of the nodes that are `config false`, with the keys and
/// entries of lists that they stand in. Merged into a configuration it makes the operational
/// datastore of RFC 8342.
///
/// # Errors
/// When the forwarder does not answer.
pub async fn read(connection: &ForwarderConnection, desired: &Desired) -> Result<DataTree<'static>, Error> {
    let operational = OperationalState::ask(connection, &desired.pieces, &desired.routes).await?;
    let desired = desired.clone();
    // A thousand interfaces are a tenth of a second of work: others are served meanwhile.
    let made = tokio::task::spawn_blocking(move || tree(&operational, &desired));
    made.await.map_err(|error| Error::Model(error.to_string()))?
}

/// The state at a data path ("/": the overview), in RFC 7951 encoding.
///
/// # Errors
/// When the forwarder does not answer, or nothing stands there.
pub async fn json(connection: &ForwarderConnection, path: &str, routes_at_most: Option<usize>) -> Result<String, Error> {
    let not_there = || Error::NotThere(path.to_owned());
    let desired = Desired::at(path);
    if desired.is_nothing() || path.contains('\0') {
        return Err(not_there());
    }
    let at_most = routes_at_most.unwrap_or(ROUTES_AT_MOST);
    let tree = read(connection, &desired.routes_at_most(at_most)).await?;
    let printed = if path.trim_matches('/').is_empty() {
        tree.print_string(DataFormat::JSON, DataPrinterFlags::WITH_SIBLINGS)
    } else {
        let node = tree.find_path(path.trim_end_matches('/')).map_err(|_| not_there())?;
        node.print_string(DataFormat::JSON, DataPrinterFlags::empty())
    };
    printed.map_err(|error| Error::Model(error.to_string()))
}

/// The tree of facts that are known already.
fn tree(operational: &OperationalState, desired: &Desired) -> Result<DataTree<'static>, Error> {
    yang::schema().state(&render(operational, desired).to_string()).map_err(Error::Model)
}

/// The facts in RFC 7951 encoding.
fn render(operational: &OperationalState, desired: &Desired) -> Value {
    let mut root = Map::new();
    let parts = [
        ("ietf-interfaces:interfaces", interfaces::render(operational, desired)),
        ("ietf-routing:routing", routing::render(operational, desired)),
        ("stoa-forwarder:forwarder", forwarder::render(operational, desired)),
        ("ietf-vrrp:vrrp", vrrp::render(operational, desired)),
    ];
    for (name, part) in parts {
        if let Some(part) = part {
            root.insert(name.to_owned(), part);
        }
    }
    Value::Object(root)
}

/// A 64-bit number as RFC 7951 (section 6.1) wants it: in quotes.
fn number(value: u64) -> Value {
    Value::String(value.to_string())
}

/// An object without the members that are null.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let there = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(there.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A text, or null where there is none.
fn text(value: &str) -> Value {
    if value.is_empty() { Value::Null } else { Value::String(value.to_owned()) }
}

/// A list, or null where it has no entry.
fn list(entries: impl IntoIterator<Item = Value>) -> Value {
    let entries: Vec<Value> = entries.into_iter().collect();
    if entries.is_empty() { Value::Null } else { Value::Array(entries) }
}

#[cfg(test)]
mod tests;
