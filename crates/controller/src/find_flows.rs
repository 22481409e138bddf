//! Searches the flows of stateful rules and of address translation, of which there may be millions: the first ones of
//! an order, as `stoa show flows` lists them.

use ipnet::IpNet;
use serde_json::{Value, json};
use stoa_api::acl::protocol_names;
use stoa_api::flow::{keep_first, with_protocol};
use stoa_api::text::ip_text;
use stoa_api::v1;
use tonic::{Code, Status};

use crate::apply::ForwarderConnection;
use crate::flow_list;
use crate::json::{number, object, text};
use crate::prefix::prefix_to_proto;

/// A search: all given conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// An address of it is at either end, before or behind translation.
    pub prefix: Option<IpNet>,
    /// The port of either end; not 0.
    pub port: Option<u16>,
    /// The name of a protocol, such as tcp, or its number.
    pub protocol: Option<String>,
    /// The VRF in which packets are received: `default` or a name.
    pub vrf: Option<String>,
    /// States, as in [`stoa_api::flow::STATES`], or `suspended`; none: any.
    pub states: Vec<String>,
    /// Whether flows with the highest rate come first, not those with the most bytes.
    pub is_by_rate: bool,
    /// Flows of the result, at most; 1 to 1,000.
    pub limit: usize,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such protocol.
    #[error("there is no protocol {0:?}: use {list} or a number up to 255", list = protocol_names().join(", "))]
    NoProtocol(String),
    /// No flow could meet the search, as it names something unknown.
    #[error("{0}")]
    Invalid(String),
    /// The forwarder does not answer.
    #[error("the forwarder does not answer: {}", .0.message())]
    Unreachable(Status),
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        match status.code() {
            Code::InvalidArgument => Error::Invalid(status.message().to_owned()),
            _ => Error::Unreachable(status),
        }
    }
}

/// The name of a VRF as in the contract, where "" is the default one.
pub(crate) fn vrf_of(name: &str) -> String {
    if name == "default" { String::new() } else { name.to_owned() }
}

/// The same for clients.
pub(crate) fn shown_vrf(name: &str) -> Value {
    if name.is_empty() { json!("default") } else { json!(name) }
}

impl Search {
    /// The filters that together mean these flows.
    fn filters(&self) -> Result<Vec<v1::FlowFilter>, Error> {
        let order = match self.is_by_rate {
            true => v1::FlowOrder::FlowByRate,
            false => v1::FlowOrder::FlowByBytes,
        };
        let filter = v1::FlowFilter {
            prefix: self.prefix.as_ref().map(|it| prefix_to_proto(&it.trunc())),
            port: self.port.map(u32::from),
            vrf: self.vrf.as_deref().map(vrf_of),
            states: self.states.clone(),
            order: order.into(),
            ..v1::FlowFilter::default()
        };
        let Some(name) = &self.protocol else { return Ok(vec![filter]) };
        let filters = with_protocol(&filter, &name.to_ascii_lowercase());
        filters.ok_or_else(|| Error::NoProtocol(name.clone()))
    }
}

/// Searches for flows; returns the output of `stoa-acl:find-flows` in RFC 7951 encoding.
///
/// # Errors
/// No flow could meet the search, or the forwarder does not answer.
pub async fn find(connection: &ForwarderConnection, search: &Search) -> Result<Value, Error> {
    let filters = search.filters()?;
    let order = filters.first().map_or(v1::FlowOrder::default(), v1::FlowFilter::order);
    let (mut flows, mut matching) = (Vec::new(), 0);
    for filter in filters {
        let listed = flow_list::first(connection, filter, search.limit).await?;
        flows.extend(listed.flows);
        matching += listed.matching;
    }
    keep_first(&mut flows, search.limit, order);
    let flows: Vec<Value> = flows.iter().map(shown).collect();
    Ok(json!({ "flow": flows, "matching": number(matching) }))
}

/// Renders one flow.
fn shown(flow: &v1::FlowState) -> Value {
    let is_translated = !flow.translated_source.is_empty();
    let behind = |value: Value| if is_translated { value } else { Value::Null };
    object([
        ("protocol", json!(flow.protocol)),
        ("source-address", text(&ip_text(&flow.source))),
        ("source-port", json!(flow.source_port)),
        ("destination-address", text(&ip_text(&flow.destination))),
        ("destination-port", json!(flow.destination_port)),
        ("translated-source-address", behind(text(&ip_text(&flow.translated_source)))),
        ("translated-source-port", behind(json!(flow.translated_source_port))),
        ("translated-destination-address", behind(text(&ip_text(&flow.translated_destination)))),
        ("translated-destination-port", behind(json!(flow.translated_destination_port))),
        ("vrf", shown_vrf(&flow.vrf)),
        ("state", text(&flow.state)),
        ("suspended", if flow.suspended { json!(true) } else { Value::Null }),
        ("packets", number(flow.packets)),
        ("octets", number(flow.bytes)),
        ("reply-packets", number(flow.reply_packets)),
        ("reply-octets", number(flow.reply_bytes)),
        ("age", json!(flow.age_s)),
        ("idle", json!(flow.idle_s)),
        ("timeout", json!(flow.timeout_s)),
        ("acl", text(&flow.acl)),
        ("ace", text(&flow.rule)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_go_into_the_contract() {
        let search = Search {
            prefix: "10.0.0.9/8".parse().ok(),
            port: Some(53),
            protocol: Some("ICMP".to_owned()),
            vrf: Some("default".to_owned()),
            is_by_rate: true,
            ..Search::default()
        };
        let filters = search.filters().unwrap();
        let expected = v1::FlowFilter {
            family: 4,
            protocol: Some(1),
            prefix: Some(v1::Prefix { address: vec![10, 0, 0, 0], length: 8 }),
            port: Some(53),
            vrf: Some(String::new()),
            order: v1::FlowOrder::FlowByRate.into(),
            ..v1::FlowFilter::default()
        };
        assert_eq!(filters, [expected]);
        let families = Search { prefix: None, ..search.clone() }.filters().unwrap();
        assert_eq!(families.len(), 2, "ICMP has a number in each family");
        let unknown = Search { protocol: Some("none".to_owned()), ..search };
        assert!(unknown.filters().unwrap_err().to_string().contains("tcp"));
    }

    #[test]
    fn a_flow_has_what_it_is_translated_to() {
        let flow = v1::FlowState {
            source: vec![10, 0, 0, 1],
            source_port: 40_000,
            destination: vec![198, 51, 100, 7],
            destination_port: 53,
            protocol: 17,
            bytes: 7,
            ..v1::FlowState::default()
        };
        let plain = shown(&flow);
        assert_eq!((&plain["source-address"], &plain["octets"]), (&json!("10.0.0.1"), &json!("7")));
        assert_eq!((&plain["vrf"], plain.get("suspended")), (&json!("default"), None));
        assert!(plain.get("translated-source-address").is_none());
        let translated = v1::FlowState {
            translated_source: vec![203, 0, 113, 17],
            translated_source_port: 40_112,
            translated_destination: flow.destination.clone(),
            translated_destination_port: 53,
            ..flow
        };
        let shown = shown(&translated);
        assert_eq!(shown["translated-source-address"], "203.0.113.17");
        assert_eq!(shown["translated-destination-port"], 53);
    }
}
