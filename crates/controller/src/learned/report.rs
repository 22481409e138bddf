//! Audits and doors in the words of the contract.

use stoa_api::v1;

use super::{Audit, AuditedKernel, DoorState, Learned, Session};

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

fn door(state: DoorState) -> v1::DoorState {
    let unresolved = state.unresolved.into_iter();
    v1::DoorState {
        name: state.name,
        session: state.session.word().to_owned(),
        ip4_routes: state.ip4 as u64,
        ip6_routes: state.ip6 as u64,
        stale: state.stale as u64,
        malformed: state.malformed,
        unresolved: unresolved.map(|(why, routes)| v1::UnresolvedGateway { why, routes }).collect(),
    }
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
    /// Audits everything, mends what differs, and tells how the doors do.
    pub async fn report(&self) -> v1::AuditLearnedReply {
        // What Linux has comes first: what is mended there is wanted of the forwarder then.
        let kernels = self.audit_kernels().await;
        let audit = self.audit().await;
        let doors = self.doors().await;
        let work = self.work().await;
        let rest = self.ask(|runner| (runner.is_completed(), runner.why.clone())).await;
        let (is_complete, why) = rest.unwrap_or_default();
        v1::AuditLearnedReply {
            tables: tables(audit),
            doors: doors.into_iter().map(door).collect(),
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
