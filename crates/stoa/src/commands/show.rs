//! `stoa show`: the state of the running router, as tables or as JSON.

mod routes;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgMatches, FromArgMatches};
use stoa_api::v1::Store;
use stoa_console::session::{Format, Session, Which};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::plugin;
use crate::show::neighbors::Selection;
use crate::show::{
    acl, bfd, clock, configuration, conservation, drops, flow_sync, flows, interface, interfaces,
    ipfix, ipsec, limits, log, logins, metrics, nat, nat_mappings, neighbors, nodes, punts,
    route_sources, rules, state, tables, version, vrrp, workers, zones,
};
use routes::{Family, FamilyTopic, RouteSelection, RoutesAction};

/// Show the state and the counters of the running router
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa show interfaces                        Ports, VLANs, addresses, counters
  stoa show interfaces wan                    All about one, with the reason why it is down
  stoa show routes 10.2.0.9                   The route that a packet to this address takes
  stoa show routes 10.2.0.0/16 --protocol bgp The BGP routes to this prefix and below it
  stoa show ip route summary                  How many routes of each protocol
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
    Interfaces {
        /// All about this interface, with the reason why it is down
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Routes: prefixes and their next hops
    #[command(alias = "route")]
    Routes {
        #[command(flatten)]
        selection: RouteSelection,
        /// Only IPv4 (4) or IPv6 (6)
        #[arg(long, value_enum)]
        family: Option<Family>,
        #[command(subcommand)]
        action: Option<RoutesAction>,
    },
    /// IPv4: routes, neighbours (ARP), interfaces
    Ip {
        #[command(subcommand)]
        topic: FamilyTopic,
    },
    /// IPv6: routes, neighbours, interfaces
    Ipv6 {
        #[command(subcommand)]
        topic: FamilyTopic,
    },
    /// Route sources: sessions with routing daemons, and how many routes each has imported
    RouteSources,
    /// Compare controller and forwarder: what the forwarder holds with what the controller desires
    Audit,
    /// Policy routing rules: match, action and hits
    Rules,
    /// Access lists: rules with hits, and where they are attached
    Acl {
        /// Only this list
        #[arg(value_name = "LIST")]
        name: Option<String>,
    },
    /// Zones: their interfaces, what passes between them, and what no rule accepts
    Zones,
    /// Flows of stateful rules and NAT, those with the most bytes first
    Flows {
        #[command(flatten)]
        selection: flows::Selection,
    },
    /// NAT: policies and static mappings, with what they translate and drop
    Nat {
        #[command(subcommand)]
        part: Option<NatPart>,
    },
    /// Export of flow records by IPFIX: collectors, what was sent and lost
    Ipfix,
    /// IPsec: security associations of tunnels, and crypto engines
    Ipsec {
        #[command(subcommand)]
        part: IpsecPart,
    },
    /// Flows at a partner that takes over by VRRP: the connection, what was sent and received
    FlowSync,
    /// Hosts that have logged in: user, time and volume
    Logins,
    /// Neighbours: ARP and neighbour discovery
    #[command(alias = "neighbours")]
    Neighbors {
        /// Only those of this interface
        #[arg(value_name = "INTERFACE")]
        interface: Option<String>,
    },
    /// ARP: neighbours of IPv4
    Arp {
        /// Only those of this interface
        #[arg(value_name = "INTERFACE")]
        interface: Option<String>,
    },
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
    #[command(visible_alias = "running-config")]
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
    /// The version of the router
    Version,
    /// The newest lines of the log: messages of Stoa's processes (`show history` has the commits)
    Log {
        /// Number of lines
        #[arg(long, value_name = "N", default_value_t = 50,
              value_parser = clap::value_parser!(u32).range(1..=100_000))]
        lines: u32,
    },
}

#[derive(Debug, clap::Subcommand)]
enum NatPart {
    /// Dynamic mappings: external addresses and ports, and the inside hosts behind them
    Mappings {
        #[command(flatten)]
        selection: nat_mappings::Selection,
    },
}

#[derive(Debug, clap::Subcommand)]
enum IpsecPart {
    /// Security associations: what each has sent, received and refused
    Sas,
    /// Crypto engines: which one serves which algorithm
    Engines,
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
        Topic::Interfaces { name: None } => interfaces::show(client, json, out).await,
        Topic::Interfaces { name: Some(name) } => interface::show(client, name, json, out).await,
        Topic::Routes { selection, family, action } => {
            let family = family.map_or(0, Family::number);
            selection.show(client, family, action.as_ref(), json, out).await
        }
        Topic::Ip { topic } => topic.show(client, 4, json, out).await,
        Topic::Ipv6 { topic } => topic.show(client, 6, json, out).await,
        Topic::RouteSources => route_sources::show(client, json, out).await,
        Topic::Audit => tables::show(client, json, out).await,
        Topic::Rules => rules::show(client, json, out).await,
        Topic::Acl { name } => acl::show(client, name.as_deref(), json, out).await,
        Topic::Zones => zones::show(client, json, out).await,
        Topic::Flows { selection } => flows::show(client, selection, json, out).await,
        Topic::Nat { part: None } => nat::show(client, json, out).await,
        Topic::Nat { part: Some(NatPart::Mappings { selection }) } => {
            nat_mappings::show(client, selection, json, out).await
        }
        Topic::Logins => logins::show(client, json, out).await,
        Topic::Ipfix => ipfix::show(client, json, out).await,
        Topic::Ipsec { part: IpsecPart::Sas } => ipsec::show(client, json, out).await,
        Topic::Ipsec { part: IpsecPart::Engines } => ipsec::engines(client, json, out).await,
        Topic::FlowSync => flow_sync::show(client, json, out).await,
        Topic::Neighbors { interface } => {
            let selection = Selection { family: 0, interface: interface.as_deref() };
            neighbors::show(client, &selection, json, out).await
        }
        Topic::Arp { interface } => {
            let selection = Selection { family: 4, interface: interface.as_deref() };
            neighbors::show(client, &selection, json, out).await
        }
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
        Topic::Version => version::show(client, json, out).await,
        Topic::Log { lines } => log::show(client, *lines as usize, json, out).await,
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
