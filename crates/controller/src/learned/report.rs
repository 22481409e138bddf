//! Audits and doors in the words of the contract.

use stoa_api::v1;

use super::{Audit, AuditedKernel, DoorState, Learned, Session};
use crate::doors::{DoorConfig, Figures};

impl Session {
    /// As operators read it.
    pub fn word(self) -> &'static str {
        match self {
            Session::Awaited => "awaited",
            Session::Begun => "begun",
            Session::Complete => "complete",
            Session::Ended => "ended",
        }
    }
}

/// A door that is configured, and what is known of it.
fn door(config: &DoorConfig, figures: Figures, state: Option<DoorState>) -> v1::DoorState {
    let mut told = v1::DoorState {
        name: config.source.name.clone(),
        session: Session::Awaited.word().to_owned(),
        r#type: config.kind.word().to_owned(),
        vrf: config.source.vrf.to_string(),
        netns: config.netns.clone(),
        is_open: figures.is_open,
        why: figures.why,
        since_unix_s: figures.since_unix_s,
        sessions: figures.sessions,
        left_out: figures.left_out,
        ..v1::DoorState::default()
    };
    if let Some(state) = state {
        let unresolved = state.unresolved.into_iter();
        state.session.word().clone_into(&mut told.session);
        told.ip4_routes = state.ip4 as u64;
        told.ip6_routes = state.ip6 as u64;
        told.stale = state.stale as u64;
        told.malformed = state.malformed;
        told.waiting = state.waiting;
        told.unresolved =
            unresolved.map(|(why, routes)| v1::UnresolvedGateway { why, routes }).collect();
    }
    told
}

fn tables(audit: Audit) -> Vec<v1::AuditedTable> {
    let table = |it: super::AuditedTable| v1::AuditedTable {
        vrf: it.vrf,
        family: it.family,
        wanted: it.wanted,
        held: it.held,
        different: it.different,
        is_compared: it.is_compared,
    };
    audit.tables.into_iter().map(table).collect()
}

fn kernel(audit: AuditedKernel) -> v1::AuditedKernel {
    let is_equal = audit.is_equal();
    let AuditedKernel { door, netns, table, routes, held, different, is_compared, why } = audit;
    v1::AuditedKernel { door, netns, table, routes, held, different, is_compared, why, is_equal }
}

impl Learned {
    /// How the doors of the configuration do, by name.
    pub async fn show_doors(&self) -> Vec<v1::DoorState> {
        let mut states = self.doors().await;
        let configuration = self.line.configuration();
        let doors = configuration.as_ref().map_or(&[][..], |it| &it.doors);
        let told = doors.iter().map(|config| {
            let name = &config.source.name;
            let at = states.iter().position(|state| state.name == *name);
            let figures = self.line.doors().of(config.kind.name(), name);
            let figures = figures.map(|it| it.figures()).unwrap_or_default();
            door(config, figures, at.map(|at| states.swap_remove(at)))
        });
        told.collect()
    }

    /// Audits everything, mends what differs, and tells how the doors do.
    pub async fn report(&self) -> v1::AuditLearnedReply {
        // What Linux has comes first: what is mended there is wanted of the forwarder then.
        let kernels = self.audit_kernels().await;
        let audit = self.audit().await;
        let doors = self.show_doors().await;
        let work = self.work().await;
        let rest = self.ask(|runner| (runner.is_completed(), runner.why.clone())).await;
        let (is_complete, why) = rest.unwrap_or_default();
        v1::AuditLearnedReply {
            tables: tables(audit),
            doors,
            heard: work.heard,
            refused: work.refused,
            why,
            table_us: work.table_us,
            forwarder_us: work.forwarder_us,
            is_complete,
            kernels: kernels.into_iter().map(kernel).collect(),
        }
    }
}
