//! How many flows of stateful rules there are of each family and state, and what became of the others.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{AlgState, FlowCount, LimitState, SummarizeFlowsReply, SummarizeFlowsRequest};

use super::flow_filter::FlowFilter;
use super::flows::none;
use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the counts and prints them.
pub async fn show(
    client: &mut Client,
    filter: &FlowFilter,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut all = SummarizeFlowsReply::default();
    for filter in filter.requests()? {
        let request = SummarizeFlowsRequest { filter: Some(filter) };
        let reply = client.summarize_flows(request).await?.into_inner();
        let states = std::mem::take(&mut all.states);
        all = SummarizeFlowsReply { states: [states, reply.states].concat(), ..reply };
    }
    if as_json {
        writeln!(out, "{}", to_json(&all))?;
        return Ok(());
    }
    match all.states.is_empty() {
        true => writeln!(out, "{}", none(filter))?,
        false => write(&states(&all.states), out)?,
    }
    writeln!(out)?;
    write(&families(&all), out)?;
    if let Some(algs) = all.algs.as_ref().filter(|it| is_used(it)) {
        writeln!(out)?;
        write(&gateways(algs), out)?;
    }
    Ok(())
}

fn states(counts: &[FlowCount]) -> Table {
    let mut table = table(&["family", "state", ">flows", ">suspended"]);
    for it in counts {
        let family = Cell::new(format!("IPv{}", it.family));
        table.add_row(vec![family, Cell::new(&it.state), count(it.flows), count(it.suspended)]);
    }
    table
}

/// The limit of the flows of a family.
fn limit(all: &SummarizeFlowsReply, family: u32) -> LimitState {
    let name = format!("ipv{family}-flows");
    all.limits.iter().find(|it| it.name == name).cloned().unwrap_or_default()
}

/// All flows of each family, whatever the filter.
fn families(all: &SummarizeFlowsReply) -> Table {
    let columns = [
        "family",
        ">flows",
        ">capacity",
        ">created",
        ">expired",
        ">evicted",
        ">refused: table full",
        ">source limit",
        ">adopted",
        ">left out",
    ];
    let mut table = table(&columns);
    for it in &all.families {
        let limit = limit(all, it.family);
        table.add_row(vec![
            Cell::new(format!("IPv{}", it.family)),
            count(limit.used.unwrap_or(0)),
            count(limit.limit),
            count(it.created),
            count(it.expired),
            count(it.evicted),
            count(it.refused),
            count(it.source_limited),
            count(it.adopted),
            count(it.left_out),
        ]);
    }
    table
}

fn algs_to_json(it: &AlgState) -> Value {
    let passed = it.passed.iter();
    let passed: serde_json::Map<String, Value> =
        passed.map(|it| (it.cause.clone(), it.packets.into())).collect();
    json!({
        "expected_now": it.expectations,
        "limit": it.limit,
        "announced": it.expected,
        "begun": it.begun,
        "expired": it.expired,
        "edited": it.edited,
        "passed": passed,
    })
}

/// Whether application level gateways have done something.
fn is_used(algs: &AlgState) -> bool {
    algs.expected > 0 || algs.passed.iter().any(|it| it.packets > 0)
}

fn gateways(algs: &AlgState) -> Table {
    let columns = [
        ">expected now",
        ">limit",
        ">announced",
        ">begun",
        ">expired",
        ">edited",
        "passed as they were",
    ];
    let mut table = table(&columns);
    let passed = algs.passed.iter().filter(|it| it.packets > 0);
    let passed: Vec<String> = passed.map(|it| format!("{} {}", it.packets, it.cause)).collect();
    table.add_row(vec![
        count(algs.expectations),
        count(algs.limit),
        count(algs.expected),
        count(algs.begun),
        count(algs.expired),
        count(algs.edited),
        Cell::new(if passed.is_empty() { "-".to_owned() } else { passed.join(", ") }),
    ]);
    table
}

fn to_json(all: &SummarizeFlowsReply) -> Value {
    let state = |it: &FlowCount| {
        json!({
            "family": it.family,
            "state": it.state,
            "flows": it.flows,
            "suspended": it.suspended,
        })
    };
    let family = |it: &stoa_api::v1::FlowCounts| {
        let limit = limit(all, it.family);
        json!({
            "family": it.family,
            "flows": limit.used,
            "capacity": limit.limit,
            "created": it.created,
            "expired": it.expired,
            "evicted": it.evicted,
            "refused": it.refused,
            "source_limited": it.source_limited,
            "adopted": it.adopted,
            "left_out": it.left_out,
        })
    };
    let mut json = json!({
        "states": all.states.iter().map(state).collect::<Vec<_>>(),
        "families": all.families.iter().map(family).collect::<Vec<_>>(),
    });
    if let Some(algs) = &all.algs {
        json["algs"] = algs_to_json(algs);
    }
    json
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::{AlgPassed, FlowCounts};

    use super::*;

    #[test]
    fn a_summary_has_states_and_capacities() {
        let state = FlowCount { family: 4, state: "udp-new".into(), flows: 1_200, suspended: 7 };
        let family = FlowCounts { family: 4, refused: 31, ..FlowCounts::default() };
        let limit = LimitState {
            name: "ipv4-flows".into(),
            used: Some(1_500),
            limit: 65_536,
            ..LimitState::default()
        };
        let all = SummarizeFlowsReply {
            states: vec![state],
            families: vec![family],
            limits: vec![limit],
            algs: Some(AlgState::default()),
        };
        let text = format!("{}\n{}", states(&all.states), families(&all));
        for part in ["udp-new", "1,200", "1,500", "65,536", "31"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(to_json(&all)["states"][0]["suspended"], 7);
        assert_eq!(to_json(&all)["families"][0]["capacity"], 65_536);
        assert!(!is_used(&all.algs.unwrap_or_default()));
    }

    #[test]
    fn a_summary_has_what_gateways_have_done() {
        let passed = [("split", 3), ("foreign", 0)];
        let passed = passed.map(|(cause, packets)| AlgPassed { cause: cause.into(), packets });
        let algs =
            AlgState { limit: 2_048, begun: 41, passed: passed.into(), ..AlgState::default() };
        assert!(is_used(&algs));
        let text = gateways(&algs).to_string();
        for part in ["2,048", "41", "3 split"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("foreign"), "{text}");
        let json =
            to_json(&SummarizeFlowsReply { algs: Some(algs), ..SummarizeFlowsReply::default() });
        assert_eq!(
            (&json["algs"]["passed"]["split"], &json["algs"]["begun"]),
            (&3.into(), &41.into())
        );
    }
}
