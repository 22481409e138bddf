//! Address translation: policies and static mappings.

mod siit;

use std::io::Write;

use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};
use stoa_api::acl::protocol_name;
use stoa_api::text::ip_text;
use stoa_api::v1::{
    ListNatReply, ListNatRequest, NatAddressState, NatBackend, NatFilteringType, NatMapping,
    NatMappingType, NatPolicy, NatPolicyState, NatPortQuota, NatStaticState, NptPrefixState,
    PortRange, Prefix,
};

use super::{count, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests policies and mappings and prints them.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.show_nat(ListNatRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", to_json(&reply))?;
        return Ok(());
    }
    let has_nat44 = !reply.policies.is_empty() || !reply.mappings.is_empty();
    if !has_nat44 && reply.prefixes.is_empty() && reply.stateless.is_empty() {
        let hint = "No NAT. `set nat instances instance 1 policy 1 external-realm external-interface NAME` hides hosts \
                    behind the address of an interface.";
        writeln!(out, "{hint}")?;
        return Ok(());
    }
    if !reply.prefixes.is_empty() {
        write(&prefix_pairs(&reply.prefixes), out)?;
    }
    if !reply.stateless.is_empty() {
        if !reply.prefixes.is_empty() {
            writeln!(out)?;
        }
        write(&siit::policies(&reply.stateless), out)?;
    }
    if !has_nat44 {
        return Ok(());
    }
    if !reply.prefixes.is_empty() || !reply.stateless.is_empty() {
        writeln!(out)?;
    }
    write(&policies(&reply.policies), out)?;
    if !reply.mappings.is_empty() {
        writeln!(out)?;
        write(&mappings(&reply.mappings), out)?;
    }
    writeln!(out)?;
    write!(out, "{}{}{}", gateways(&reply), summary(&reply), port_control(&reply))?;
    Ok(())
}

/// Pairs of IPv6 prefixes (NPTv6), and what was translated.
fn prefix_pairs(pairs: &[NptPrefixState]) -> Table {
    let columns =
        ["prefix policy", "interface", "internal", "external", ">out packets", ">in packets"];
    let mut table = table(&columns);
    for state in pairs {
        let Some(pair) = &state.prefix else { continue };
        let text = |prefix: &Option<Prefix>| prefix.as_ref().map(ToString::to_string);
        table.add_row(vec![
            Cell::new(format!("{}/{}", pair.instance, pair.policy)),
            Cell::new(&pair.interface),
            Cell::new(text(&pair.internal).unwrap_or_default()),
            Cell::new(text(&pair.external).unwrap_or_default()),
            count(state.out_packets),
            count(state.in_packets),
        ]);
    }
    table
}

/// Prefixes, or what their absence means.
fn prefixes(prefixes: &[Prefix], none: &str) -> String {
    match prefixes {
        [] => none.to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Whom a policy translates.
fn sources(policy: &NatPolicy) -> String {
    match &policy.nat64_prefix {
        Some(prefix) => format!("IPv6 to {prefix}"),
        None => prefixes(&policy.subscribers, "all"),
    }
}

/// The names of RFC 8512.
fn mapping_type(policy: &NatPolicy) -> &'static str {
    match policy.mapping() {
        NatMappingType::NatEim => "eim",
        NatMappingType::NatEdm => "edm",
    }
}

fn filtering_type(policy: &NatPolicy) -> &'static str {
    match policy.filtering() {
        NatFilteringType::NatEdf => "edf",
        NatFilteringType::NatAdf => "adf",
        NatFilteringType::NatEif => "eif",
    }
}

/// Where the external addresses come from.
fn external(policy: &NatPolicy) -> String {
    match policy.static_only {
        true => "static mappings".to_owned(),
        false => prefixes(&policy.pools, "its address"),
    }
}

fn policies(policies: &[NatPolicyState]) -> Table {
    let columns = [
        "policy",
        "interface",
        "sources",
        "external",
        "kind",
        ">flows",
        ">mappings",
        ">no port",
        ">no address",
        ">table full",
        ">quota",
        ">subscribers",
        ">port sets",
    ];
    let mut table = table(&columns);
    for state in policies {
        let Some(policy) = &state.policy else { continue };
        let kind = format!("{} {}", mapping_type(policy), filtering_type(policy));
        table.add_row(vec![
            Cell::new(format!("{}/{}", policy.instance, policy.policy)),
            Cell::new(&policy.interface),
            Cell::new(sources(policy)),
            Cell::new(external(policy)),
            Cell::new(kind),
            count(state.flows),
            count(state.dynamic_mappings),
            count(state.out_of_ports),
            count(state.no_address),
            count(state.table_full),
            count(state.over_quota),
            subscribers(state),
            of_blocks(state, |it| {
                // Those without ports in use are held for their subscribers.
                let held = match it.unused_blocks {
                    0 => String::new(),
                    held => format!(" + {} held", number(held)),
                };
                format!("{}{held} of {}", number(it.used_blocks), number(it.blocks))
            }),
        ]);
    }
    table
}

/// Subscribers, which are counted with port sets or quotas only.
fn subscribers(state: &NatPolicyState) -> Cell {
    let has_quotas = state.policy.as_ref().is_some_and(|it| !it.quotas.is_empty());
    let text = if has_quotas { number(state.subscribers) } else { "-".to_owned() };
    match state.blocks > 0 {
        true => of_blocks(state, |it| number(it.subscribers)),
        false => Cell::new(text).set_alignment(CellAlignment::Right),
    }
}

/// What only policies with port sets have.
fn of_blocks(state: &NatPolicyState, text: impl Fn(&NatPolicyState) -> String) -> Cell {
    let text = if state.blocks > 0 { text(state) } else { "-".to_owned() };
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn range(ports: &PortRange) -> String {
    match ports.first == ports.last {
        true => ports.first.to_string(),
        false => format!("{}-{}", ports.first, ports.last),
    }
}

/// One end of a static mapping: an address with its ports, or a prefix.
fn end(prefix: Option<&Prefix>, ports: Option<&PortRange>) -> String {
    let (Some(prefix), ports) = (prefix, ports.map(range)) else { return "-".to_owned() };
    match ports {
        Some(ports) => format!("{}:{ports}", ip_text(&prefix.address)),
        None if prefix.length == 32 => ip_text(&prefix.address),
        None => prefix.to_string(),
    }
}

/// The external end of a static mapping, and the internal one: "-" if it has backends.
fn ends(mapping: &NatMapping) -> [String; 2] {
    [
        end(mapping.external.as_ref(), mapping.external_ports.as_ref()),
        end(mapping.internal.as_ref(), mapping.internal_ports.as_ref()),
    ]
}

/// The ports of a backend: as many as there are external ones.
fn backend_end(mapping: &NatMapping, backend: &NatBackend) -> String {
    let more = mapping.external_ports.map_or(0, |it| it.last.saturating_sub(it.first));
    let ports = PortRange { first: backend.first_port, last: backend.first_port + more };
    format!("{}:{}", ip_text(&backend.address), range(&ports))
}

/// Where a static mapping leads: to an internal end, or to backends with their weights and flows.
fn internal(state: &NatStaticState, mapping: &NatMapping) -> String {
    let [_, end] = ends(mapping);
    let flows = state.backend_flows.iter().copied().chain(std::iter::repeat(0));
    let backends = mapping.backends.iter().zip(flows).map(|(it, flows)| {
        let end = backend_end(mapping, it);
        format!("{end}, weight {}, flows {}", it.weight, number(flows))
    });
    let mut lines: Vec<String> =
        if mapping.backends.is_empty() { vec![end] } else { backends.collect() };
    let vrf = mapping.internal_vrf.as_ref().filter(|it| **it != mapping.vrf);
    lines.extend(vrf.map(|vrf| match vrf.is_empty() {
        true => "in the default VRF".to_owned(),
        false => format!("in VRF {vrf}"),
    }));
    if let Some(seen) = &mapping.internal_remote {
        lines.push(format!("sees {}", end_of(seen, mapping.internal_remote_ports.as_ref())));
    }
    lines.join("\n")
}

fn end_of(prefix: &Prefix, ports: Option<&PortRange>) -> String {
    end(Some(prefix), ports.filter(|_| prefix.length == 32))
}

/// "all" or the name of the protocol.
fn protocol(mapping: &NatMapping) -> String {
    match mapping.protocol {
        0 => "all".to_owned(),
        protocol => protocol_name(protocol),
    }
}

fn mappings(mappings: &[NatStaticState]) -> Table {
    let mut table = table(&["static mapping", "protocol", "external", "internal", ">flows"]);
    for state in mappings {
        let Some(mapping) = &state.mapping else { continue };
        let [external, _] = ends(mapping);
        table.add_row(vec![
            Cell::new(format!("{}/{}", mapping.instance, mapping.index)),
            Cell::new(protocol(mapping)),
            Cell::new(external),
            Cell::new(internal(state, mapping)),
            count(state.flows),
        ]);
    }
    table
}

/// The application level gateways that are on: a line for each policy that has some.
fn gateways(reply: &ListNatReply) -> String {
    let policies = reply.policies.iter().filter_map(|it| it.policy.as_ref());
    let lines = policies.filter(|it| !it.algs.is_empty()).map(|policy| {
        let algs = policy.algs.iter().map(|it| format!("{} on port {}", it.name, it.port));
        let algs = algs.collect::<Vec<_>>().join(", ");
        format!("Gateways of policy {}/{}: {algs}.\n", policy.instance, policy.policy)
    });
    lines.collect()
}

/// What hosts have asked for, if they may.
fn port_control(reply: &ListNatReply) -> String {
    let Some(it) = &reply.port_control else { return String::new() };
    let answers = it.answers.iter().filter(|it| it.count > 0);
    let answers: Vec<String> =
        answers.map(|it| format!("{} {} {}", number(it.count), it.protocol, it.result)).collect();
    let answers = if answers.is_empty() { "none".to_owned() } else { answers.join(", ") };
    let (leases, limit) = (number(it.leases), number(it.lease_limit));
    format!("PCP and NAT-PMP: {leases} leases of {limit}. Answers: {answers}.\n")
}

/// The use of the tables, and what was translated.
fn summary(reply: &ListNatReply) -> String {
    let used = reply.addresses.iter().filter(|it| it.flows > 0 || it.dynamic_mappings > 0).count();
    let (flows, flow_limit) = (number(reply.flows), number(reply.flow_limit));
    let (mappings, limit) = (number(reply.dynamic_mappings), number(reply.mapping_limit));
    let translated =
        |packets, bytes| format!("{} packets, {} bytes", number(packets), number(bytes));
    format!(
        "{flows} flows of {flow_limit}, {mappings} dynamic mappings of {limit}, {used} external addresses in use\n\
         Out: {}. In: {}.\n",
        translated(reply.out_packets, reply.out_bytes),
        translated(reply.in_packets, reply.in_bytes),
    )
}

fn quota(it: &NatPortQuota) -> Value {
    json!({ "protocol": it.protocol, "ports": it.ports })
}

/// Port sets of a policy; null: it has none.
fn port_sets(state: &NatPolicyState) -> Option<Value> {
    let policy = state.policy.as_ref()?;
    let blocks = policy.blocks.as_ref()?;
    Some(json!({
        "size": blocks.size, "limit": blocks.limit, "timeout_s": blocks.timeout_s,
        "subscriber_length": blocks.subscriber_length, "deterministic": blocks.deterministic,
        "total": state.blocks, "used": state.used_blocks, "unused": state.unused_blocks,
    }))
}

fn to_json(reply: &ListNatReply) -> Value {
    let texts =
        |all: &[Prefix]| all.iter().map(ToString::to_string).map(Value::from).collect::<Vec<_>>();
    let policy = |state: &NatPolicyState| {
        let policy = state.policy.as_ref()?;
        Some(json!({
            "instance": policy.instance, "policy": policy.policy, "interface": policy.interface,
            "subscribers": texts(&policy.subscribers), "exempt": texts(&policy.exempt),
            "nat64_prefix": policy.nat64_prefix.as_ref().map(ToString::to_string),
            "pools": texts(&policy.pools), "static_only": policy.static_only,
            "first_port": policy.first_port, "last_port": policy.last_port,
            "mapping": mapping_type(policy), "filtering": filtering_type(policy),
            "algs": policy.algs.iter().map(|it| json!({ "name": it.name, "port": it.port })).collect::<Vec<_>>(),
            "flows": state.flows, "dynamic_mappings": state.dynamic_mappings,
            "created_flows": state.created_flows,
            "dropped": {
                "no_port": state.out_of_ports, "no_address": state.no_address,
                "table_full": state.table_full, "over_quota": state.over_quota,
            },
            "port_sets": port_sets(state),
            "quotas": policy.quotas.iter().map(quota).collect::<Vec<_>>(), "silent": policy.silent,
            "active_subscribers": state.subscribers,
        }))
    };
    let mapping = |state: &NatStaticState| {
        let mapping = state.mapping.as_ref()?;
        let [external, internal] = ends(mapping);
        let internal = mapping.backends.is_empty().then_some(internal);
        let flows = state.backend_flows.iter().copied().chain(std::iter::repeat(0));
        let backend = |(it, flows): (&NatBackend, u64)| json!({ "internal": backend_end(mapping, it), "weight": it.weight, "flows": flows });
        let seen = mapping.internal_remote.as_ref();
        Some(json!({
            "instance": mapping.instance, "index": mapping.index, "vrf": mapping.vrf,
            "internal_vrf": mapping.internal_vrf.as_ref().unwrap_or(&mapping.vrf),
            "protocol": mapping.protocol, "external": external, "internal": internal,
            "internal_remote": seen.map(|it| end_of(it, mapping.internal_remote_ports.as_ref())),
            "backends": mapping.backends.iter().zip(flows).map(backend).collect::<Vec<_>>(),
            "backend_selection": if mapping.by_source { "source" } else { "connection" },
            "flows": state.flows,
        }))
    };
    let address = |it: &NatAddressState| {
        json!({
            "address": ip_text(&it.address), "vrf": it.vrf, "flows": it.flows,
            "dynamic_mappings": it.dynamic_mappings,
        })
    };
    let direction = |packets: u64, bytes: u64| json!({ "packets": packets, "bytes": bytes });
    let pair = |state: &NptPrefixState| {
        let pair = state.prefix.as_ref()?;
        Some(json!({
            "instance": pair.instance, "policy": pair.policy, "interface": pair.interface,
            "internal": pair.internal.as_ref().map(ToString::to_string),
            "external": pair.external.as_ref().map(ToString::to_string),
            "out": direction(state.out_packets, state.out_bytes),
            "in": direction(state.in_packets, state.in_bytes),
        }))
    };
    json!({
        "policies": reply.policies.iter().filter_map(policy).collect::<Vec<_>>(),
        "mappings": reply.mappings.iter().filter_map(mapping).collect::<Vec<_>>(),
        "addresses": reply.addresses.iter().map(address).collect::<Vec<_>>(),
        "prefixes": reply.prefixes.iter().filter_map(pair).collect::<Vec<_>>(),
        "stateless": reply.stateless.iter().filter_map(siit::to_json).collect::<Vec<_>>(),
        "flows": reply.flows, "flow_limit": reply.flow_limit,
        "dynamic_mappings": reply.dynamic_mappings, "mapping_limit": reply.mapping_limit,
        "out": direction(reply.out_packets, reply.out_bytes),
        "in": direction(reply.in_packets, reply.in_bytes),
        "port_control": reply.port_control.as_ref().map(|it| json!({
            "leases": it.leases, "lease_limit": it.lease_limit, "expired": it.expired, "epoch_s": it.epoch_s,
            "answers": it.answers.iter().filter(|it| it.count > 0).map(|it| json!({
                "protocol": it.protocol, "result": it.result, "count": it.count,
            })).collect::<Vec<_>>(),
        })),
    })
}

#[cfg(test)]
mod tests;
