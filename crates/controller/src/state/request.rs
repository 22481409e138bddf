//! What of the state is requested.

use crate::operational_state::{RouteFilter, StateSection};

/// Default limit of routes of each table.
pub const ROUTE_LIMIT: usize = 1_000;

/// The sections of the state that a request needs.
#[derive(Clone, Debug)]
pub struct StateRequest {
    pub(super) sections: Vec<StateSection>,
    /// Only the interface of this name.
    pub(super) interface: Option<String>,
    pub(super) routes: RouteFilter,
}

impl StateRequest {
    /// Everything but neighbours and routes, which may be many; the number of routes is included.
    pub fn overview() -> StateRequest {
        StateRequest::of(&StateSection::OVERVIEW)
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

    pub(super) fn of(sections: &[StateSection]) -> StateRequest {
        let routes = RouteFilter { table: None, at_most: ROUTE_LIMIT };
        StateRequest { sections: sections.to_vec(), interface: None, routes }
    }

    pub(crate) fn is(&self, section: StateSection) -> bool {
        self.sections.contains(&section)
    }
}
