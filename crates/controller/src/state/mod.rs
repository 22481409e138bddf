//! Operational state (RFC 8342) as YANG data: the state of the forwarder, converted to the modules of the
//! configuration. Each read requests it from the forwarder; nothing is cached.
//!
//! Each capability has its file. Large lists (routes, neighbours) are only requested if the path selects them.

mod forwarder;
mod interfaces;
mod path;
pub(crate) mod routing;
mod vrrp;

use serde_json::{Map, Value};
use tonic::Status;
use yang5::data::{Data, DataFormat, DataPrinterFlags, DataTree};

use crate::apply::ForwarderConnection;
use crate::operational_state::{OperationalState, RouteFilter, StateSection};

/// Default limit of routes of each table.
pub const ROUTE_LIMIT: usize = 1_000;

/// Why the state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The forwarder does not answer.
    #[error("the forwarder does not answer: {}", .0.message())]
    Unreachable(#[from] Status),
    /// The state violates the modules, which is a bug.
    #[error("the state does not fit the YANG modules: {0}; please report this")]
    Model(String),
    /// The path selects no state.
    #[error("there is no state at {0}")]
    NotFound(String),
}

/// The sections of the state that a request needs.
#[derive(Clone, Debug)]
pub struct StateRequest {
    sections: Vec<StateSection>,
    /// Only the interface of this name.
    interface: Option<String>,
    routes: RouteFilter,
}

impl StateRequest {
    /// Everything but neighbours and routes, which may be many; the number of routes is included.
    pub fn overview() -> StateRequest {
        StateRequest::of(&StateSection::OVERVIEW)
    }

    /// The state at or below a data path such as
    /// `/ietf-interfaces:interfaces/interface[name='a']/statistics`. "/" is the overview.
    ///
    /// Neighbours are included at or below `interface`, routes at or below `/ietf-routing:routing/ribs` up to
    /// [`ROUTE_LIMIT`] of each table. A path without state selects no section.
    pub fn at(path: &str) -> StateRequest {
        path::request(path)
    }

    /// With this limit of routes of each table.
    #[must_use]
    pub fn with_route_limit(mut self, limit: usize) -> StateRequest {
        self.routes.at_most = limit;
        self
    }

    /// Whether no section is selected.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    fn of(sections: &[StateSection]) -> StateRequest {
        let routes = RouteFilter { table: None, at_most: ROUTE_LIMIT };
        StateRequest { sections: sections.to_vec(), interface: None, routes }
    }

    fn is(&self, section: StateSection) -> bool {
        self.sections.contains(&section)
    }
}

/// The requested state as a tree of `config false` nodes with the keys of their list entries. Merged into the running
/// configuration it is the operational datastore of RFC 8342.
///
/// # Errors
/// When the forwarder does not answer.
pub async fn read(
    connection: &ForwarderConnection,
    request: &StateRequest,
) -> Result<DataTree<'static>, Error> {
    let operational = OperationalState::ask(connection, &request.sections, &request.routes).await?;
    let request = request.clone();
    // A thousand interfaces take 0.1 s, which would block other requests.
    let tree = tokio::task::spawn_blocking(move || tree(&operational, &request));
    tree.await.map_err(|error| Error::Model(error.to_string()))?
}

/// The state at a data path ("/": the overview), in RFC 7951 encoding.
///
/// # Errors
/// When the forwarder does not answer, or the path selects no state.
pub async fn json(
    connection: &ForwarderConnection,
    path: &str,
    route_limit: Option<usize>,
) -> Result<String, Error> {
    let not_found = || Error::NotFound(path.to_owned());
    let request = StateRequest::at(path);
    if request.is_empty() || path.contains('\0') {
        return Err(not_found());
    }
    let limit = route_limit.unwrap_or(ROUTE_LIMIT);
    let tree = read(connection, &request.with_route_limit(limit)).await?;
    let printed = if path.trim_matches('/').is_empty() {
        tree.print_string(DataFormat::JSON, DataPrinterFlags::WITH_SIBLINGS)
    } else {
        let node = tree.find_path(path.trim_end_matches('/')).map_err(|_| not_found())?;
        node.print_string(DataFormat::JSON, DataPrinterFlags::empty())
    };
    printed.map_err(|error| Error::Model(error.to_string()))
}

/// The tree of the state that was read.
fn tree(
    operational: &OperationalState,
    request: &StateRequest,
) -> Result<DataTree<'static>, Error> {
    stoa_yang::schema().state(&render(operational, request).to_string()).map_err(Error::Model)
}

/// The state in RFC 7951 encoding.
fn render(operational: &OperationalState, request: &StateRequest) -> Value {
    let mut root = Map::new();
    let parts = [
        ("ietf-interfaces:interfaces", interfaces::render(operational, request)),
        ("ietf-routing:routing", routing::render(operational, request)),
        ("stoa-forwarder:forwarder", forwarder::render(operational, request)),
        ("ietf-vrrp:vrrp", vrrp::render(operational, request)),
    ];
    for (name, part) in parts {
        if let Some(part) = part {
            root.insert(name.to_owned(), part);
        }
    }
    Value::Object(root)
}

/// A 64-bit number, which is a string in JSON (RFC 7951, section 6.1).
fn number(value: u64) -> Value {
    Value::String(value.to_string())
}

/// An object without the members that are null.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let present = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(present.map(|(name, value)| (name.to_owned(), value)).collect())
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
