//! Which flows `stoa show flows` and `stoa clear flows` mean.

use std::net::IpAddr;

use clap::builder::PossibleValuesParser;
use stoa_api::flow::{STATES, SUSPENDED, with_protocol};
use stoa_api::text::ip_bytes;
use stoa_api::v1;

use crate::failure::Failure;
use crate::named;

/// All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct FlowFilter {
    /// Only flows of this protocol: tcp, udp, icmp, gre, esp, sctp or a number
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Only flows with this address at either end, before or behind translation
    #[arg(long, value_name = "ADDRESS", conflicts_with = "prefix")]
    address: Option<IpAddr>,
    /// Only flows with an address of this prefix at either end, before or behind translation
    #[arg(long, value_name = "PREFIX", value_parser = named::prefix)]
    prefix: Option<v1::Prefix>,
    /// Only flows with this port at either end: a number, or a service such as https
    #[arg(long, value_name = "PORT", value_parser = named::port_of_flow)]
    port: Option<u16>,
    /// Only flows of this VRF, such as default
    #[arg(long, value_name = "NAME")]
    vrf: Option<String>,
    /// Only flows in this state, or in one of these with commas between
    #[arg(long, value_name = "STATE", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(STATES.iter().chain([&SUSPENDED])))]
    state: Vec<String>,
}

impl FlowFilter {
    /// Whether it means all flows.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// The filter without the protocol.
    fn of_all_protocols(&self) -> v1::FlowFilter {
        let address =
            |it| v1::Prefix { address: ip_bytes(it), length: if it.is_ipv4() { 32 } else { 128 } };
        let prefix = self.address.map(address).or_else(|| self.prefix.clone());
        let vrf = self.vrf.clone().filter(|name| name != "all");
        v1::FlowFilter {
            family: prefix.as_ref().map_or(0, |it| if it.address.len() == 4 { 4 } else { 6 }),
            prefix,
            port: self.port.map(u32::from),
            vrf: vrf.map(|name| if name == "default" { String::new() } else { name }),
            states: self.state.clone(),
            ..v1::FlowFilter::default()
        }
    }

    /// The filters of the contract that together mean these flows: one, or one for each family.
    ///
    /// # Errors
    /// There is no such protocol.
    pub fn requests(&self) -> Result<Vec<v1::FlowFilter>, Failure> {
        let filter = self.of_all_protocols();
        let Some(name) = &self.protocol else { return Ok(vec![filter]) };
        let name = name.to_ascii_lowercase();
        let known = with_protocol(&filter, &name);
        // It has the names that there are in its error.
        known.map_or_else(|| named::protocol(&name, true).map(|_| Vec::new()), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        filter: FlowFilter,
    }

    fn filter(line: &str) -> Result<FlowFilter, String> {
        let words = std::iter::once("flows").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|it| it.filter).map_err(|error| error.to_string())
    }

    fn requests(line: &str) -> Vec<v1::FlowFilter> {
        filter(line).unwrap().requests().unwrap()
    }

    #[test]
    fn icmp_has_a_number_in_each_family() {
        let families = |line| {
            requests(line).into_iter().map(|it| (it.family, it.protocol)).collect::<Vec<_>>()
        };
        assert_eq!(families(""), [(0, None)]);
        assert_eq!(families("--protocol tcp"), [(0, Some(6))]);
        assert_eq!(families("--protocol icmp"), [(4, Some(1)), (6, Some(58))]);
        assert_eq!(families("--protocol icmp --prefix 2001:db8::/32"), [(6, Some(58))]);
        assert!(filter("--protocol none").unwrap().requests().is_err());
        assert!(filter("").unwrap().is_all() && !filter("--port 53").unwrap().is_all());
    }

    #[test]
    fn conditions_go_into_the_contract() {
        let line = "--address 10.0.0.1 --port https --vrf default --state udp-new,suspended";
        let expected = v1::FlowFilter {
            family: 4,
            protocol: None,
            prefix: Some(v1::Prefix { address: vec![10, 0, 0, 1], length: 32 }),
            port: Some(443),
            vrf: Some(String::new()),
            states: vec!["udp-new".to_owned(), "suspended".to_owned()],
            ..v1::FlowFilter::default()
        };
        assert_eq!(requests(line), [expected]);
        assert_eq!(requests("--vrf red")[0].vrf.as_deref(), Some("red"));
        assert_eq!(requests("--vrf all")[0].vrf, None);
    }

    #[test]
    fn a_bad_value_is_refused_with_the_accepted_ones() {
        let refused = |line| filter(line).unwrap_err();
        assert!(refused("--state open").contains("tcp-established"));
        assert!(refused("--port 70000").contains("65535"));
        assert!(refused("--port 0").contains("1 to 65535"));
        assert!(refused("--prefix 10.0.0.0/33").contains("10.2.0.0/16"));
        assert!(refused("--address 10.0.0.1 --prefix 10.0.0.0/8").contains("cannot be used"));
    }
}
