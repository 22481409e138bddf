//! Next hops of routes as OpenConfig numbers them: groups, and the next hops that groups share.
//!
//! Routes in ietf-routing have their next hops, without numbers. A number here is a hash of what it stands for
//! (FNV-1a), so that it is the same in every answer and after a restart.

use serde_json::{Value, json};

/// One next hop of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub index: u64,
    /// Its weight.
    pub weight: u64,
    /// Gateway, outgoing interface and weight, for the table.
    pub value: Value,
}

/// The next hops of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopGroup {
    /// Its number.
    pub id: u64,
    /// The next hops.
    pub members: Vec<Member>,
}

/// The group of a `next-hop` of ietf-routing; `None`: it has none, as routes to the router itself.
pub fn group(next_hop: &Value) -> Option<NextHopGroup> {
    let listed = next_hop.get("next-hop-list").and_then(|list| list.get("next-hop")?.as_array());
    let mut members: Vec<Member> = match listed {
        Some(all) => all.iter().filter_map(member).collect(),
        None => member(next_hop).into_iter().collect(),
    };
    members.sort_by_key(|member| (member.index, member.weight));
    let text: Vec<String> =
        members.iter().map(|member| format!("{}*{}", member.index, member.weight)).collect();
    (!members.is_empty()).then(|| NextHopGroup { id: fnv(&text.join(",")), members })
}

fn member(value: &Value) -> Option<Member> {
    let has_name = |member: &str, name: &str| member.rsplit(':').next() == Some(name);
    let of = |name: &str| {
        let members = value.as_object()?.iter();
        members.into_iter().find(|(member, _)| has_name(member, name))?.1.as_str()
    };
    let (interface, address) =
        (of("outgoing-interface"), of("address").or_else(|| of("next-hop-address")));
    let weight = value["stoa-routing:weight"].as_u64().unwrap_or(1);
    if interface.is_none() && address.is_none() {
        return None;
    }
    let text = format!("{}@{}", address.unwrap_or_default(), interface.unwrap_or_default());
    let mut shown = json!({ "weight": weight });
    for (name, value) in [("outgoing-interface", interface), ("address", address)] {
        if let Some(value) = value {
            shown[name] = json!(value);
        }
    }
    Some(Member { index: fnv(&text), weight, value: json!({ "next-hop": shown }) })
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_next_hops_have_equal_numbers() {
        let one = json!({ "outgoing-interface": "a",
                          "ietf-ipv4-unicast-routing:next-hop-address": "10.0.0.2" });
        let two = json!({ "next-hop-list": { "next-hop": [
            { "outgoing-interface": "b", "stoa-routing:weight": 3 },
            { "outgoing-interface": "a", "ietf-ipv4-unicast-routing:address": "10.0.0.2" },
        ] } });
        let (one, two) = (group(&one).unwrap(), group(&two).unwrap());
        assert_eq!((one.members.len(), two.members.len()), (1, 2));
        assert!(two.members.iter().any(|member| member.index == one.members[0].index));
        assert_ne!(one.id, two.id);
        assert_eq!(group(&json!({ "special-next-hop": "receive" })), None);
    }
}
