//! The audit of the tables of all capabilities.

use stoa_api::rows::ROUTES;
use stoa_api::v1;

use crate::apply::{AuditedKind, AuditedState, ForwarderConnection};
use crate::learned::{AuditedTable, Learned};

/// Audits everything that the forwarder holds and everything that this controller sends. A forwarder that does not
/// answer, or that has no tables, leaves the latter.
pub(super) async fn audit(
    connection: &ForwarderConnection,
    learned: &Learned,
) -> v1::AuditTablesReply {
    let rows = connection.rows();
    let mut tables = vec![routes(learned).await];
    let mut held = rows.list().await.unwrap_or_default();
    for name in rows.names() {
        if held.iter().all(|table| table.name != name) {
            held.push(v1::TableState { name: name.to_owned(), ..v1::TableState::default() });
        }
    }
    for v1::TableState { name, generation, rows: held, stale, digest, .. } in held {
        if name == ROUTES {
            (tables[0].generation, tables[0].stale) = (generation, stale);
            continue;
        }
        let audited = rows.audit(&name).await;
        let mut table = v1::AuditedRows {
            name,
            generation,
            held,
            stale,
            digest,
            is_sent: audited.is_some(),
            ..v1::AuditedRows::default()
        };
        if let Some(audited) = audited {
            (table.desired, table.refused) = (audited.desired, audited.refused);
            (table.different, table.is_compared) = (audited.different, audited.is_compared);
            table.rejection = audited.rejection;
            if audited.is_compared {
                (table.held, table.digest) = (audited.held, Some(audited.digest));
            }
        }
        tables.push(table);
    }
    if let Some(AuditedState { generation, kinds }) = connection.audit_desired().await {
        tables.extend(kinds.into_iter().map(|kind| of_desired_state(generation, &kind)));
    }
    v1::AuditTablesReply { tables }
}

/// A kind of entries of the desired state.
fn of_desired_state(generation: u64, audited: &AuditedKind) -> v1::AuditedRows {
    let AuditedKind { kind, desired, held, different, digest } = *audited;
    v1::AuditedRows {
        name: kind.name().to_owned(),
        generation,
        desired,
        held,
        different,
        digest: Some(digest),
        is_compared: true,
        is_sent: true,
        ..v1::AuditedRows::default()
    }
}

/// The learned routes of all VRFs and families.
async fn routes(learned: &Learned) -> v1::AuditedRows {
    let audit = learned.audit().await;
    let sum = |of: fn(&AuditedTable) -> u64| -> u64 { audit.tables.iter().map(of).sum() };
    v1::AuditedRows {
        name: ROUTES.to_owned(),
        desired: sum(|table| table.desired),
        held: sum(|table| table.held),
        different: sum(|table| table.different),
        is_compared: audit.tables.iter().all(|table| table.is_compared),
        is_sent: true,
        ..v1::AuditedRows::default()
    }
}
