//! `stoa show`: the state of the running router, as tables or as JSON.

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, FromArgMatches};
use stoa_api::v1::{Protocol, Store};
use stoa_console::session::{Format, Session, Which};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::plugin;
use crate::show::route_query::{Destination, RouteQuery};
use crate::show::{
    audit, bfd, clock, configuration, conservation, drops, interfaces, limits, metrics, neighbors,
    nodes, punts, route_sources, routes, rules, state, tables, vrrp, workers,
};

/// Show the state and the counters of the running router
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa show interfaces                        Ports, VLANs, addresses, counters
  stoa show routes 10.2.0.9                   The route that a packet to this address takes
  stoa show routes 10.2.0.0/16 --protocol bgp The BGP routes to this prefix and below it
  stoa show routes --inactive                 The routes that are not in use, with the reasons
  stoa show routes audit                      Whether the forwarder has all imported routes
  stoa show audit                             The same for the tables of all capabilities
  stoa show nodes --watch                     Cycles per packet, every second
  stoa show drops --json | jq '.drops[] | select(.packets > 0)'")]
pub struct Arguments {
    #[command(subcommand)]
    topic: Topic,
    #[command(flatten)]
    options: Options,
}

/// The options of all topics, allowed before and after the topic.
#[derive(Debug, clap::Args)]
struct Options {
    /// Print one JSON object on one line
    #[arg(long, global = true)]
    json: bool,
    /// Repeat every SECONDS seconds [default: 1], until Ctrl-C
    #[arg(long, global = true, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
    /// Socket of the running router [default: $STOA_SOCKET, else /run/stoa/stoa.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Topic {
    /// Ports and sub-interfaces: state, addresses, counters
    Interfaces,
    /// Routes: prefixes and their next hops
    #[command(args_conflicts_with_subcommands = true)]
    Routes {
        #[command(subcommand)]
        action: Option<RoutesAction>,
        /// Only the route that a packet to this address takes, or the routes to this prefix and below it
        #[arg(value_name = "ADDRESS|PREFIX")]
        to: Option<Destination>,
        /// Only the route that a packet to this address takes; same as the address alone
        #[arg(long, value_name = "ADDRESS", conflicts_with = "to")]
        longest_match: Option<IpAddr>,
        /// Only IPv4 (4) or IPv6 (6)
        #[arg(long, value_enum)]
        family: Option<Family>,
        /// Only routes of this protocol (column FROM)
        #[arg(long, value_name = "PROTOCOL", value_parser = protocols())]
        protocol: Option<Protocol>,
        /// Only routes that are not in use, with the reason: another route is preferred, or no gateway is reachable
        #[arg(long)]
        inactive: bool,
        /// Only this VRF; "all" selects all VRFs [default: the default VRF]
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        vrf: String,
    },
    /// Route sources: sessions with routing daemons, and how many routes each has imported
    RouteSources,
    /// Compare controller and forwarder: the tables of all capabilities that change without a commit
    Audit,
    /// Policy routing rules: match, action and hits
    Rules,
    /// Neighbours: ARP and neighbour discovery
    Neighbors,
    /// BFD: sessions with neighbours, and whether routes through them are used
    Bfd,
    /// VRRP: virtual routers and their masters
    Vrrp,
    /// Nodes of the packet graph: packets and cycles
    Nodes {
        /// Include nodes that no packet has passed
        #[arg(long)]
        all: bool,
    },
    /// Drops by reason
    Drops {
        /// Include reasons without drops
        #[arg(long)]
        all: bool,
    },
    /// Control-plane policers: packets that each class passed and dropped
    Punts,
    /// Workers: processors, queues and load
    Workers,
    /// Limits: usage and limit of every bounded resource
    Limits,
    /// Packet accounting: whether every packet is accounted for
    Conservation,
    /// State as YANG data (RFC 7951 JSON), as in RESTCONF
    State {
        /// Data path, such as /stoa-forwarder:forwarder/workers or
        /// "/ietf-interfaces:interfaces/interface[name='wan']/statistics"
        #[arg(default_value = "/", hide_default_value = true)]
        path: String,
        /// Maximum number of routes of each table
        #[arg(long, value_name = "NUMBER")]
        routes: Option<u32>,
    },
    /// All counters as metrics for Prometheus (OpenMetrics)
    Metrics,
    /// The running configuration, or a part of it
    Configuration {
        /// Names and keys of the part, as for `stoa set`
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Show the candidate configuration
        #[arg(long, conflicts_with_all = ["startup", "number"])]
        candidate: bool,
        /// Show the startup configuration
        #[arg(long, conflicts_with = "number")]
        startup: bool,
        /// Show number N of the history
        #[arg(long, value_name = "N")]
        number: Option<u64>,
        /// Print lines for `stoa set` and `stoa load`
        #[arg(long, conflicts_with_all = ["xml", "json"])]
        set: bool,
        /// Print XML
        #[arg(long, conflicts_with = "json")]
        xml: bool,
    },
    /// Past configurations: time, author, client and comment
    History,
}

#[derive(Debug, clap::Subcommand)]
enum RoutesAction {
    /// Compare the imported routes of controller and forwarder, correct differences, and show the route sources
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
    /// The value in the contract.
    fn number(self) -> u32 {
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

/// Shows the topic, once or repeatedly.
pub fn execute(arguments: Arguments) -> Outcome {
    repeat(&arguments.options, async |client, out| show_once(&arguments, client, out).await)
}

/// Shows the topic of a plugin in the same way.
pub fn execute_topic(
    (topic, of_show, matches): (&dyn plugin::Topic, &ArgMatches, &ArgMatches),
) -> Outcome {
    let options = Options::from_arg_matches(of_show).unwrap_or_else(|error| error.exit());
    let json = options.json;
    repeat(&options, async |client, out| {
        topic.show(plugin::Query { client, matches, json, out }).await
    })
}

fn repeat(
    options: &Options,
    mut show: impl AsyncFnMut(&mut Client, &mut dyn Write) -> Result<(), Failure>,
) -> Outcome {
    let socket = SocketArgument::new(options.socket.clone());
    block_on(async {
        let mut client = socket.connect().await?;
        loop {
            let mut out = std::io::stdout().lock();
            if options.watch.is_some() && !options.json && out.is_terminal() {
                // Cursor home, then clear below: flickers less than clearing the screen.
                out.write_all(b"\x1b[H\x1b[J")?;
            } else if options.watch.is_some() && !options.json {
                // In a file or pipe, a line with the time separates the repetitions.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now = u64::try_from(now.as_nanos()).unwrap_or_default();
                writeln!(out, "--- {} UTC", clock(now))?;
            }
            show(&mut client, &mut out).await?;
            out.flush()?;
            drop(out);
            let Some(seconds) = options.watch else { return Ok(ExitCode::SUCCESS) };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    })
}

async fn show_once(
    arguments: &Arguments,
    client: &mut Client,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let json = arguments.options.json;
    match &arguments.topic {
        Topic::Interfaces => interfaces::show(client, json, out).await,
        Topic::Routes { action: Some(RoutesAction::Audit), .. } => {
            audit::show(client, json, out).await
        }
        Topic::Routes { action: None, to, longest_match, family, protocol, vrf, inactive } => {
            let query = RouteQuery {
                to: to.or(longest_match.map(Destination::Address)),
                family: family.map_or(0, Family::number),
                vrf: if vrf == "default" { "" } else { vrf },
                inactive: *inactive,
                protocol: *protocol,
            };
            routes::show(client, &query, json, out).await
        }
        Topic::RouteSources => route_sources::show(client, json, out).await,
        Topic::Audit => tables::show(client, json, out).await,
        Topic::Rules => rules::show(client, json, out).await,
        Topic::Neighbors => neighbors::show(client, json, out).await,
        Topic::Bfd => bfd::show(client, json, out).await,
        Topic::Vrrp => vrrp::show(client, json, out).await,
        Topic::Nodes { all } => nodes::show(client, *all, json, out).await,
        Topic::Drops { all } => drops::show(client, *all, json, out).await,
        Topic::Punts => punts::show(client, json, out).await,
        Topic::Workers => workers::show(client, json, out).await,
        Topic::Limits => limits::show(client, json, out).await,
        Topic::Conservation => conservation::show(client, json, out).await,
        Topic::State { path, routes } => state::show(client, (path, *routes), json, out).await,
        Topic::Metrics => metrics::show(client, out).await,
        Topic::Configuration { words, .. } => {
            let (which, form) = arguments.topic.configuration(json);
            let text = Session::new(client.clone(), false).show(which, words, form).await?;
            out.write_all(text.as_bytes())?;
            Ok(())
        }
        Topic::History => {
            let reply = Session::new(client.clone(), false).history().await?;
            match json {
                true => writeln!(out, "{}", configuration::history_json(&reply))?,
                false => configuration::history(&reply, out)?,
            }
            Ok(())
        }
    }
}

impl Topic {
    /// Which configuration to show, and in which form.
    fn configuration(&self, json: bool) -> (Which, Format) {
        let Topic::Configuration { candidate, startup, number, set, xml, .. } = self else {
            return (Which::Store(Store::Running), Format::Json);
        };
        let which = match (number, candidate, startup) {
            (Some(number), ..) => Which::Number(*number),
            (None, true, _) => Which::Store(Store::Candidate),
            (None, _, true) => Which::Store(Store::Startup),
            _ => Which::Store(Store::Running),
        };
        let form = match (json, set, xml) {
            (true, ..) => Format::Json,
            (_, true, _) => Format::Set,
            (_, _, true) => Format::Xml,
            _ => Format::Braces,
        };
        (which, form)
    }
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
