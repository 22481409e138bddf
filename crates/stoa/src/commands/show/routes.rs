//! The topics of routes: `show routes`, `show ip route` and `show ipv6 route`.

use std::io::Write;
use std::net::IpAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use stoa_api::v1::Protocol;

use crate::failure::Failure;
use crate::operator::Client;
use crate::show::neighbors::Selection;
use crate::show::route_query::{Destination, RouteQuery};
use crate::show::{audit, interface, interfaces, neighbors, route_summary, routes};

/// Which routes to show.
#[derive(Debug, clap::Args)]
pub struct RouteSelection {
    /// Only the route that a packet to this address takes, or the routes to this prefix and below it
    #[arg(value_name = "ADDRESS|PREFIX")]
    to: Option<Destination>,
    /// Only the route that a packet to this address takes; same as the address alone
    #[arg(long, value_name = "ADDRESS", conflicts_with = "to")]
    longest_match: Option<IpAddr>,
    /// Only routes of this protocol (column FROM)
    #[arg(long, value_name = "PROTOCOL", value_parser = protocols())]
    protocol: Option<Protocol>,
    /// Only routes that are not in use, with the reason: another route is preferred, or no gateway is reachable
    #[arg(long)]
    inactive: bool,
    /// Only this VRF; "all" selects all VRFs [default: the default VRF; of a summary, all]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vrf: String,
}

impl RouteSelection {
    /// Shows the routes of a family (0: both), or what `action` names.
    pub async fn show(
        &self,
        client: &mut Client,
        family: u32,
        action: Option<&RoutesAction>,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let is_summary = matches!(action, Some(RoutesAction::Summary));
        let vrf = match self.vrf.as_str() {
            "default" => "",
            "" if is_summary => "all",
            name => name,
        };
        let query = RouteQuery {
            to: self.to.or(self.longest_match.map(Destination::Address)),
            family,
            vrf,
            inactive: self.inactive,
            protocol: self.protocol,
        };
        match action {
            None => routes::show(client, &query, json, out).await,
            Some(RoutesAction::Summary) => route_summary::show(client, &query, json, out).await,
            Some(RoutesAction::Audit) => {
                let is_selective = query.to.is_some() || family != 0 || query.protocol.is_some();
                if is_selective || query.inactive || !vrf.is_empty() {
                    let text = "an audit compares all routes: use `show routes audit` alone";
                    return Err(Failure::Usage(text.into()));
                }
                audit::show(client, json, out).await
            }
        }
    }
}

/// A topic of one family, by its usual name.
#[derive(Debug, clap::Subcommand)]
pub enum FamilyTopic {
    /// Routes: prefixes and their next hops
    #[command(alias = "routes")]
    Route {
        #[command(flatten)]
        selection: RouteSelection,
        #[command(subcommand)]
        action: Option<SummaryAction>,
    },
    /// Neighbours: ARP or neighbour discovery
    #[command(aliases = ["arp", "neighbours"])]
    Neighbors {
        /// Only those of this interface
        #[arg(value_name = "INTERFACE")]
        interface: Option<String>,
    },
    /// Interfaces: state, addresses, counters
    Interfaces {
        /// All about this interface
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

impl FamilyTopic {
    /// Shows the topic of this family, 4 or 6.
    pub async fn show(
        &self,
        client: &mut Client,
        family: u32,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        match self {
            FamilyTopic::Route { selection, action } => {
                let action = action.as_ref().map(|SummaryAction::Summary| RoutesAction::Summary);
                selection.show(client, family, action.as_ref(), json, out).await
            }
            FamilyTopic::Neighbors { interface } => {
                let selection = Selection { family, interface: interface.as_deref() };
                neighbors::show(client, &selection, json, out).await
            }
            FamilyTopic::Interfaces { name: None } => interfaces::show(client, json, out).await,
            FamilyTopic::Interfaces { name: Some(name) } => {
                interface::show(client, name, json, out).await
            }
        }
    }
}

/// The summary of one family.
#[derive(Debug, clap::Subcommand)]
pub enum SummaryAction {
    /// Show how many routes each protocol has
    Summary,
}

/// What to do with all routes.
#[derive(Debug, clap::Subcommand)]
pub enum RoutesAction {
    /// Compare the imported routes of controller and forwarder, correct differences, and show the route sources
    Audit,
    /// Show how many routes each protocol has
    Summary,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Family {
    #[value(name = "4", alias = "ip4")]
    Ip4,
    #[value(name = "6", alias = "ip6")]
    Ip6,
}

impl Family {
    /// The value in the contract.
    pub fn number(self) -> u32 {
        match self {
            Family::Ip4 => 4,
            Family::Ip6 => 6,
        }
    }
}

/// The protocols of routes.
const PROTOCOLS: [(&str, Protocol); 10] = [
    ("direct", Protocol::Direct),
    ("static", Protocol::Static),
    ("kernel", Protocol::Kernel),
    ("bgp", Protocol::Bgp),
    ("ospf", Protocol::Ospf),
    ("isis", Protocol::Isis),
    ("rip", Protocol::Rip),
    ("babel", Protocol::Babel),
    ("bird", Protocol::Bird),
    ("other", Protocol::Other),
];

/// Parses a protocol.
fn protocols() -> impl TypedValueParser<Value = Protocol> {
    let words = PossibleValuesParser::new(PROTOCOLS.map(|(word, _)| word));
    // The parser accepts only these words.
    words.map(|word| PROTOCOLS.iter().find(|it| it.0 == word).map_or(Protocol::Other, |it| it.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_can_be_selected_by_its_name() {
        let all: Vec<Protocol> = (0..).map_while(|it| Protocol::try_from(it).ok()).collect();
        assert_eq!(all.len(), PROTOCOLS.len());
        assert!(PROTOCOLS.iter().all(|(word, protocol)| *word == protocol.to_string()));
    }
}
