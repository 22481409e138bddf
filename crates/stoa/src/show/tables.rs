//! The audit of all capabilities: what the controller wants in force, and what the forwarder holds.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{AuditTablesRequest, AuditedRows};

use super::{Cell, count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Runs the audit and prints the result. The controller sends differing rows to the forwarder again.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let tables = client.audit_tables(AuditTablesRequest {}).await?.into_inner().tables;
    if as_json {
        writeln!(out, "{}", json(&tables))?;
        return Ok(());
    }
    let columns =
        ["table", ">generation", ">desired", ">held", ">refused", ">different", "digest", "result"];
    let mut shown = table(&columns);
    for audited in &tables {
        shown.add_row(vec![
            Cell::new(&audited.name),
            count(audited.generation),
            count(audited.desired),
            count(audited.held),
            count(audited.refused),
            count(audited.different),
            Cell::new(audited.digest.map_or_else(|| "-".to_owned(), hex)),
            Cell::new(result(audited)),
        ]);
    }
    write(&shown, out)?;
    Ok(())
}

fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

fn result(audited: &AuditedRows) -> &str {
    if !audited.rejection.is_empty() {
        return &audited.rejection;
    }
    match (audited.is_sent, audited.is_compared, audited.different) {
        (false, ..) => "not sent by this controller",
        (true, true, 0) => "equal",
        (true, true, _) => "sent again",
        (true, false, _) => "rows change: ask again",
    }
}

fn json(tables: &[AuditedRows]) -> Value {
    let is_equal = tables.iter().all(|it| it.is_sent && it.is_compared && it.different == 0);
    let table = |it: &AuditedRows| {
        json!({
            "table": it.name, "generation": it.generation.to_string(), "desired": it.desired, "held": it.held,
            "refused": it.refused, "stale": it.stale, "different": it.different,
            "digest": it.digest.map(hex), "compared": it.is_compared, "sent": it.is_sent,
            "rejection": (!it.rejection.is_empty()).then_some(&it.rejection),
        })
    };
    json!({
        "audit": if is_equal { "equal" } else { "different" },
        "tables": tables.iter().map(table).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_tables_are_equal() {
        let equal = AuditedRows { is_sent: true, is_compared: true, ..AuditedRows::default() };
        let different = AuditedRows { different: 1, ..equal.clone() };
        let unknown = AuditedRows::default();
        let changing = AuditedRows { is_compared: false, ..equal.clone() };
        let rejected = AuditedRows { rejection: "no such table".to_owned(), ..changing.clone() };
        let results = [&equal, &different, &unknown, &changing, &rejected].map(result);
        let expected = [
            "equal",
            "sent again",
            "not sent by this controller",
            "rows change: ask again",
            "no such table",
        ];
        assert_eq!(results, expected);
        assert_eq!(json(std::slice::from_ref(&equal))["audit"], "equal");
        // A number of JSON is exact up to 2^53 in many programs.
        let large = AuditedRows { generation: u64::MAX, ..equal.clone() };
        assert_eq!(json(&[large])["tables"][0]["generation"], "18446744073709551615");
        for other in [different, unknown, changing, rejected] {
            assert_eq!(json(&[equal.clone(), other])["audit"], "different");
        }
    }
}
