//! Operational state (RFC 8342) as YANG data: the state of the forwarder, converted to the modules of the
//! configuration. Each read requests it from the forwarder; nothing is cached.
//!
//! Each capability has its file. Large lists (routes, neighbours, flows) are only requested if the path selects them.

mod forwarder;
mod interfaces;
mod path;
mod request;
pub(crate) mod routing;

use serde_json::{Map, Value};
use tonic::Status;
use yang5::data::{Data, DataFormat, DataPrinterFlags, DataTree};

use crate::apply::ForwarderConnection;
use crate::capability::{Facts, FlowFacts, list};
use crate::operational_state::{OperationalState, StateSection};
pub use request::{ROUTE_LIMIT, StateRequest};

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
pub(crate) fn tree(
    operational: &OperationalState,
    request: &StateRequest,
) -> Result<DataTree<'static>, Error> {
    stoa_yang::schema().state(&render(operational, request).to_string()).map_err(Error::Model)
}

/// The state in RFC 7951 encoding.
pub(crate) fn render(operational: &OperationalState, request: &StateRequest) -> Value {
    let mut root = Map::new();
    let parts = [
        ("ietf-interfaces:interfaces", interfaces::render(operational, request)),
        ("ietf-routing:routing", routing::render(operational, request)),
        ("stoa-forwarder:forwarder", forwarder::render(operational, request)),
    ];
    for (name, part) in parts {
        if let Some(part) = part {
            root.insert(name.to_owned(), part);
        }
    }
    let facts = Facts {
        interfaces: &operational.interfaces,
        kernel_configuration: request
            .is(StateSection::Interfaces)
            .then_some(&*operational.kernel_configuration),
        route_sources: request.is(StateSection::RouteSources).then_some(&operational.route_sources),
        learned_routes: Some(&operational.learned_routes),
        punts: request.is(StateSection::Punts).then_some(&operational.punts),
        rules: request.is(StateSection::Rules).then_some(&operational.rules),
        acls: request.is(StateSection::Acls).then_some(&operational.acls),
        flows: request.is(StateSection::Flows).then_some(FlowFacts {
            states: &operational.flow_states,
            counts: &operational.flows,
            limits: &operational.limits,
            algs: operational.algs.as_ref(),
        }),
        zone_pairs: request.is(StateSection::Acls).then_some(&operational.zone_pairs),
        nat: operational.nat_facts(),
        ipfix: operational.ipfix.as_ref(),
        ipsec: operational.ipsec.as_ref(),
        flow_sync: operational.flow_sync.as_ref(),
        logins: Some(&operational.logins),
        drops: request.is(StateSection::Drops).then_some(&operational.drops),
        workers: request.is(StateSection::Workers).then_some(&operational.workers),
    };
    list::all().for_each(|capability| capability.state(&facts, &mut root));
    Value::Object(root)
}

#[cfg(test)]
mod tests;
