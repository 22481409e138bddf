//! State of the forwarder: stoa-forwarder.

use serde_json::{Map, Value, json};
use stoa_api::counters::{DROPS, NODES};
use stoa_api::v1;

use super::request::StateRequest;
use crate::json::{list, number, object, text, with_counters};
use crate::operational_state::{OperationalState, StateSection};
use stoa_api::date;

/// `/stoa-forwarder:forwarder`.
pub(super) fn render(operational: &OperationalState, request: &StateRequest) -> Option<Value> {
    let mut all = Map::new();
    if request.is(StateSection::Program) {
        all.insert("in-sync".to_owned(), json!(operational.in_sync));
        if operational.flow_hash_seed > 0 {
            all.insert("flow-hash-seed".to_owned(), json!(operational.flow_hash_seed));
        }
        if let Some(Value::Object(members)) = operational.program.as_ref().map(program) {
            all.extend(members);
        }
    }
    let parts = [
        (
            StateSection::Nodes,
            "nodes",
            json!({ "node": operational.nodes.iter().filter(|it| it.calls > 0).map(node).collect::<Vec<_>>() }),
        ),
        (
            StateSection::Drops,
            "drops",
            json!({ "drop": operational.drops.iter().map(drop).collect::<Vec<_>>() }),
        ),
        (
            StateSection::Limits,
            "limits",
            json!({ "limit": operational.limits.iter().map(limit).collect::<Vec<_>>() }),
        ),
        (StateSection::Conservation, "conservation", accounting(&operational.conservation)),
    ];
    let selected = parts.into_iter().filter(|(section, ..)| request.is(*section));
    all.extend(selected.map(|(_, name, part)| (name.to_owned(), part)));
    (!all.is_empty()).then_some(Value::Object(all))
}

fn program(hello: &v1::HelloReply) -> Value {
    object([
        ("version", text(&hello.version)),
        ("process-id", json!(u32::try_from(hello.pid).unwrap_or(0))),
        ("started", json!(date::of_unix_s(hello.started_unix_s))),
        ("kernel", text(&hello.kernel)),
        ("memory", text(&hello.memory)),
        ("driver", list(hello.drivers.iter().map(|name| json!(name)))),
        ("time-stamp-counter", number(hello.tsc_hz)),
    ])
}

fn node(node: &v1::NodeState) -> Value {
    let described = object([
        ("name", text(&node.name)),
        ("worker", json!(node.worker)),
        ("description", text(&node.description)),
        ("next", list(node.next.iter().map(|name| json!(name)))),
    ]);
    with_counters(described, NODES, node)
}

fn drop(drop: &v1::DropState) -> Value {
    let reason = object([("reason", text(&drop.reason)), ("description", text(&drop.description))]);
    with_counters(reason, DROPS, drop)
}

fn limit(limit: &v1::LimitState) -> Value {
    object([
        ("name", text(&limit.name)),
        ("used", limit.used.map_or(Value::Null, number)),
        ("limit", if limit.limit == 0 { Value::Null } else { number(limit.limit) }),
        ("refused", number(limit.refused)),
        ("fix", text(&limit.description)),
    ])
}

fn accounting(accounting: &v1::Conservation) -> Value {
    object([
        ("received", number(accounting.received)),
        ("generated", number(accounting.generated)),
        ("sent", number(accounting.sent)),
        ("consumed", number(accounting.consumed)),
        ("dropped", number(accounting.dropped)),
        ("held", number(accounting.held)),
        ("balanced", json!(accounting.balanced)),
        ("buffers", number(accounting.buffers)),
        ("buffers-free", number(accounting.buffers_free)),
        ("buffers-busy", number(accounting.buffers_busy)),
        ("buffers-waiting", number(accounting.buffers_waiting)),
    ])
}
