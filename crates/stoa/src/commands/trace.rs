//! `stoa trace`: the path of single packets through the nodes.

use std::process::ExitCode;
use std::time::Duration;

use stoa_api::v1::{ClearTraceRequest, GetTraceRequest, StartTraceRequest};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::show::{self, trace};

/// Trace packets through the nodes of the packet graph
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa trace add --interface eth0 --count 5        Trace the next five packets of eth0
  stoa trace add --match 'icmp and host 10.1.0.2'  Trace packets that match a tcpdump filter
  stoa trace show                                  Show each step with the decoded headers
  stoa trace show --follow                         Print packets as they arrive

A trace does not slow other packets. It ends by itself when it has all its packets.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Socket of the running router [default: $STOA_SOCKET, else /run/stoa/stoa.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Trace the next packets; this replaces the previous trace
    Add {
        /// Interface that receives the packets
        #[arg(long, value_name = "NAME", default_value = "any")]
        interface: String,
        /// Number of packets, at most 1,000
        #[arg(long, value_name = "N", default_value_t = 10,
              value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
        /// Trace only packets that match this tcpdump filter
        #[arg(
            long = "match",
            value_name = "EXPRESSION",
            default_value = "",
            hide_default_value = true
        )]
        expression: String,
    },
    /// Show the trace
    Show {
        /// Show only the newest N packets
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        max: u32,
        /// Print one JSON object on one line
        #[arg(long)]
        json: bool,
        /// Print packets as they arrive, until all have arrived
        #[arg(long, conflicts_with_all = ["json", "max"])]
        follow: bool,
    },
    /// Stop tracing and remove the trace
    Clear,
}

/// Sends the request and prints the answer.
pub fn execute(arguments: Arguments) -> Outcome {
    let socket = SocketArgument::new(arguments.socket);
    block_on(async {
        let mut client = socket.connect().await?;
        match arguments.action {
            Action::Add { interface, count, expression } => {
                let request = StartTraceRequest { interface, count, expression, filter: vec![] };
                let count = client.start_trace(request).await?.into_inner().count;
                let next = match count {
                    1 => "The next packet is".to_owned(),
                    count => format!("The next {count} packets are"),
                };
                show::print(&format!("{next} traced: `stoa trace show` shows the path."))?;
            }
            Action::Show { max, json, follow } => {
                if follow {
                    follow_on(&mut client).await?;
                } else {
                    let reply = client.show_trace(GetTraceRequest { max }).await?.into_inner();
                    let text = if json { trace::json(&reply) } else { trace::text(&reply) };
                    show::print(&text)?;
                }
            }
            Action::Clear => {
                client.clear_trace(ClearTraceRequest {}).await?;
                show::print("The trace is removed.")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// How often `--follow` requests the trace.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

/// Prints each packet once. A packet is printed when a second reply contains it: in the first one its trace may
/// still be incomplete.
async fn follow_on(client: &mut Client) -> Result<(), Failure> {
    let (mut shown, mut seen) = (0, 0);
    loop {
        let reply = client.show_trace(GetTraceRequest { max: 0 }).await?.into_inner();
        if reply.interface.is_empty() {
            return show::print(trace::NOTHING).map_err(Failure::from);
        }
        let last = reply.packets.last().map_or(0, |packet| packet.number);
        if last < shown {
            // Another trace was started.
            (shown, seen) = (0, 0);
        }
        for packet in &reply.packets {
            if packet.number > shown && packet.number <= seen {
                show::print(&trace::packet(packet))?;
                shown = packet.number;
            }
        }
        if reply.taken >= reply.count && shown >= last {
            return Ok(());
        }
        seen = last;
        tokio::time::sleep(FOLLOW_INTERVAL).await;
    }
}
