//! `stoa show`: every look at the running router, as tables or as JSON.

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use stoa_api::v1::{Protocol, Store};
use stoa_console::session::{Form, Session, Which};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::show::asked_routes::{Asked, To};
use crate::show::{
    audit, bfd, clock, configuration, conservation, drops, interfaces, limits, metrics, neighbors,
    nodes, punts, route_sources, routes, rules, state, vrrp, workers,
};

/// Show what the router holds and what passed through it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa show interfaces                        Ports, VLANs, addresses, counters
  stoa show routes 10.2.0.9                   Which route takes this address?
  stoa show routes 10.2.0.0/16 --protocol bgp Which routes of BGP are below this prefix?
  stoa show routes --inactive                 Which routes are not in use, and why?
  stoa show routes audit                      Does the forwarder hold what daemons have learned?
  stoa show nodes --watch                     Cycles per packet, every second
  stoa show drops --json | jq '.drops[] | select(.packets > 0)'")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Answer with JSON, one object on one line
    #[arg(long, global = true)]
    json: bool,
    /// Show again every so many seconds, until Ctrl-C
    #[arg(long, global = true, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
    #[command(flatten)]
    socket: GlobalSocket,
}

/// The socket, allowed before and after the name of what is shown.
#[derive(Debug, clap::Args)]
struct GlobalSocket {
    /// Socket of the operator [default: $STOA_SOCKET, else /run/stoa/stoa.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Ports and sub-interfaces: state, addresses, counters
    Interfaces,
    /// Routes: where each prefix goes
    #[command(args_conflicts_with_subcommands = true)]
    Routes {
        #[command(subcommand)]
        only: Option<OfRoutes>,
        /// Only the route that takes this address, or those to this prefix and below it
        #[arg(value_name = "ADDRESS|PREFIX")]
        to: Option<To>,
        /// Only the route that takes this address: the same as the address alone
        #[arg(long, value_name = "ADDRESS", conflicts_with = "to")]
        longest_match: Option<IpAddr>,
        /// Only IPv4 (4) or IPv6 (6)
        #[arg(long, value_enum)]
        family: Option<Family>,
        /// Only routes of this protocol, as the column FROM names it
        #[arg(long, value_name = "PROTOCOL", value_parser = protocols())]
        protocol: Option<Protocol>,
        /// Only routes that are not in use, and why: others go first, or their gateways are not reached
        #[arg(long)]
        inactive: bool,
        /// Only this VRF; "all" for every one [default: the default VRF]
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        vrf: String,
    },
    /// Route sources of routing daemons: whether they are open, who has come, how many routes
    RouteSources,
    /// Rules of policy routing: what they are about, and what they did
    Rules,
    /// Neighbours: ARP and neighbour discovery
    Neighbors,
    /// BFD: sessions with neighbours, and whether routes through them are used
    Bfd,
    /// VRRP: virtual routers, and who of the link has their addresses
    Vrrp,
    /// Nodes of the packet graph: packets and cycles
    Nodes {
        /// Nodes that no packet passed, too
        #[arg(long)]
        all: bool,
    },
    /// Drops by reason
    Drops {
        /// Reasons that never came, too
        #[arg(long)]
        all: bool,
    },
    /// Budgets of the control plane: what each class of packets passed and lost
    Punts,
    /// Workers: where they run and how busy they are
    Workers,
    /// Limits: everything that is bounded, and how near it is
    Limits,
    /// The packet accounting: every packet received is accounted for
    Conservation,
    /// State as YANG data (RFC 7951 JSON), as RESTCONF tells it
    State {
        /// Data path, such as /stoa-forwarder:forwarder/workers or
        /// "/ietf-interfaces:interfaces/interface[name='wan']/statistics"
        #[arg(default_value = "/", hide_default_value = true)]
        path: String,
        /// Routes of each table at most
        #[arg(long, value_name = "NUMBER")]
        routes: Option<u32>,
    },
    /// Every counter, as metrics for Prometheus (OpenMetrics)
    Metrics,
    /// What is configured, or a part of it
    Configuration {
        /// Names and keys of the part, as for `stoa set`
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// What is worked on, not what runs
        #[arg(long, conflicts_with_all = ["startup", "number"])]
        candidate: bool,
        /// What Stoa begins with
        #[arg(long, conflicts_with = "number")]
        startup: bool,
        /// A number of the history
        #[arg(long, value_name = "N")]
        number: Option<u64>,
        /// As lines for `stoa set` and `stoa load`
        #[arg(long, conflicts_with_all = ["xml", "json"])]
        set: bool,
        /// As XML
        #[arg(long, conflicts_with = "json")]
        xml: bool,
    },
    /// Configurations that were in force: when, by whom, why
    History,
}

#[derive(Debug, clap::Subcommand)]
enum OfRoutes {
    /// Compare learned routes of controller and forwarder, fix what differs, and show the route sources of daemons
    Audit,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Family {
    #[value(name = "4", alias = "ip4")]
    Ip4,
    #[value(name = "6", alias = "ip6")]
    Ip6,
}

impl Family {
    /// As the contract has it.
    fn number(self) -> u32 {
        match self {
            Family::Ip4 => 4,
            Family::Ip6 => 6,
        }
    }
}

/// The protocols that routes are of.
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

/// Reads one of them.
fn protocols() -> impl TypedValueParser<Value = Protocol> {
    let words = PossibleValuesParser::new(PROTOCOLS.map(|(word, _)| word));
    // There is no other word.
    words.map(|word| PROTOCOLS.iter().find(|it| it.0 == word).map_or(Protocol::Other, |it| it.1))
}

/// Asks and shows, once or again and again.
pub fn execute(arguments: Arguments) -> Outcome {
    let socket = SocketArgument::new(arguments.socket.socket.clone());
    block_on(async {
        let mut client = socket.connect().await?;
        loop {
            let mut out = std::io::stdout().lock();
            if arguments.watch.is_some() && !arguments.json && out.is_terminal() {
                // Home, and clear what is below: less flicker than a clear.
                out.write_all(b"\x1b[H\x1b[J")?;
            } else if arguments.watch.is_some() && !arguments.json {
                // In a file or pipe one look follows the other: say when each was.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now = u64::try_from(now.as_nanos()).unwrap_or_default();
                writeln!(out, "--- {} UTC", clock(now))?;
            }
            look(&arguments, &mut client, &mut out).await?;
            out.flush()?;
            drop(out);
            let Some(seconds) = arguments.watch else { return Ok(ExitCode::SUCCESS) };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    })
}

async fn look(
    arguments: &Arguments,
    client: &mut Client,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let json = arguments.json;
    match &arguments.what {
        What::Interfaces => interfaces::show(client, json, out).await,
        What::Routes { only: Some(OfRoutes::Audit), .. } => audit::show(client, json, out).await,
        What::Routes { only: None, to, longest_match, family, protocol, vrf, inactive } => {
            let asked = Asked {
                to: to.or(longest_match.map(To::Address)),
                family: family.map_or(0, Family::number),
                vrf: if vrf == "default" { "" } else { vrf },
                inactive: *inactive,
                protocol: *protocol,
            };
            routes::show(client, &asked, json, out).await
        }
        What::RouteSources => route_sources::show(client, json, out).await,
        What::Rules => rules::show(client, json, out).await,
        What::Neighbors => neighbors::show(client, json, out).await,
        What::Bfd => bfd::show(client, json, out).await,
        What::Vrrp => vrrp::show(client, json, out).await,
        What::Nodes { all } => nodes::show(client, *all, json, out).await,
        What::Drops { all } => drops::show(client, *all, json, out).await,
        What::Punts => punts::show(client, json, out).await,
        What::Workers => workers::show(client, json, out).await,
        What::Limits => limits::show(client, json, out).await,
        What::Conservation => conservation::show(client, json, out).await,
        What::State { path, routes } => state::show(client, (path, *routes), json, out).await,
        What::Metrics => metrics::show(client, out).await,
        What::Configuration { words, .. } => {
            let (which, form) = arguments.what.asked(json);
            let text = Session::new(client.clone(), false).show(which, words, form).await?;
            out.write_all(text.as_bytes())?;
            Ok(())
        }
        What::History => {
            let reply = Session::new(client.clone(), false).history().await?;
            match json {
                true => writeln!(out, "{}", configuration::history_json(&reply))?,
                false => configuration::history(&reply, out)?,
            }
            Ok(())
        }
    }
}

impl What {
    /// Which configuration is asked for, and how it is to look.
    fn asked(&self, json: bool) -> (Which, Form) {
        let What::Configuration { candidate, startup, number, set, xml, .. } = self else {
            return (Which::Store(Store::Running), Form::Json);
        };
        let which = match (number, candidate, startup) {
            (Some(number), ..) => Which::Number(*number),
            (None, true, _) => Which::Store(Store::Candidate),
            (None, _, true) => Which::Store(Store::Startup),
            _ => Which::Store(Store::Running),
        };
        let form = match (json, set, xml) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::Set,
            (_, _, true) => Form::Xml,
            _ => Form::Braces,
        };
        (which, form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_named_as_routes_name_them() {
        let all: Vec<Protocol> = (0..).map_while(|it| Protocol::try_from(it).ok()).collect();
        assert_eq!(all.len(), PROTOCOLS.len());
        assert!(PROTOCOLS.iter().all(|(word, protocol)| *word == protocol.to_string()));
    }
}
