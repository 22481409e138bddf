//! Limits: usage and limit of every bounded resource.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{LimitState, ListLimitsRequest};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let limits = client.show_limits(ListLimitsRequest {}).await?.into_inner().limits;
    if as_json {
        let list: Vec<Value> = limits.iter().map(json).collect();
        writeln!(out, "{}", json!({ "limits": list }))?;
    } else {
        write(&to_table(&limits), out)?;
    }
    Ok(())
}

fn to_table(limits: &[LimitState]) -> Table {
    let mut table = table(&["name", ">used", ">limit", ">full", ">refused", "when it is reached"]);
    for limit in limits {
        let used = limit.used.map_or_else(|| Cell::new("-"), count);
        let of = if limit.limit == 0 { Cell::new("-") } else { count(limit.limit) };
        let share = super::ratio(limit.used.unwrap_or(0) * 100, limit.limit);
        let share = share.filter(|_| limit.used.is_some());
        table.add_row(vec![
            Cell::new(&limit.name),
            used,
            of,
            Cell::new(share.map_or_else(|| "-".to_owned(), |share| format!("{share:.0} %"))),
            count(limit.refused),
            Cell::new(&limit.description),
        ]);
    }
    table
}

fn json(limit: &LimitState) -> Value {
    json!({
        "name": limit.name,
        "used": limit.used,
        "limit": limit.limit,
        "refused": limit.refused,
        "description": limit.description,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_counted_is_not_zero() {
        let some =
            LimitState { name: "routes".into(), used: Some(5), limit: 10, ..Default::default() };
        let none =
            LimitState { name: "rings".into(), limit: 1024, refused: 7, ..Default::default() };
        let text = to_table(&[some, none.clone()]).to_string();
        assert!(text.contains("50 %") && text.contains("1,024"), "{text}");
        assert!(json(&none)["used"].is_null());
    }
}
