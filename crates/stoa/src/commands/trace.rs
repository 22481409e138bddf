//! `stoa trace`: the way of single packets through the nodes.

use std::process::ExitCode;
use std::time::Duration;

use stoa_api::v1::{ClearTraceRequest, GetTraceRequest, StartTraceRequest};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::show::{self, trace};

/// Follow packets through the nodes, step by step
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa trace add --interface eth0 --count 5        The next five packets of eth0
  stoa trace add --match 'icmp and host 10.1.0.2'  Of any interface, by a filter of tcpdump
  stoa trace show                                  Each step, with the headers in words
  stoa trace show --follow                         As they come, until all are there

Packets that are not traced are not slowed. A trace ends by itself when it has all its packets.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Socket of the operator [default: $STOA_SOCKET, else /run/stoa/stoa.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Trace the next packets; what was traced before is forgotten
    Add {
        /// Interface that receives them
        #[arg(long, value_name = "NAME", default_value = "any")]
        interface: String,
        /// Packets, 1,000 at most
        #[arg(long, value_name = "N", default_value_t = 10,
              value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
        /// Only packets that this filter takes, in the language of tcpdump
        #[arg(
            long = "match",
            value_name = "EXPRESSION",
            default_value = "",
            hide_default_value = true
        )]
        expression: String,
    },
    /// Show what was traced
    Show {
        /// The newest packets only
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        max: u32,
        /// Answer with JSON, one object on one line
        #[arg(long)]
        json: bool,
        /// Show packets as they come, until all that were asked for are there
        #[arg(long, conflicts_with_all = ["json", "max"])]
        follow: bool,
    },
    /// Forget the trace and trace no more
    Clear,
}

/// Asks the router.
pub fn execute(arguments: Arguments) -> Outcome {
    let socket = SocketArgument::new(arguments.socket);
    block_on(async {
        let mut client = socket.connect().await?;
        match arguments.what {
            What::Add { interface, count, expression } => {
                let request = StartTraceRequest { interface, count, expression, filter: vec![] };
                let count = client.start_trace(request).await?.into_inner().count;
                let next = match count {
                    1 => "The next packet is".to_owned(),
                    count => format!("The next {count} packets are"),
                };
                show::print(&format!("{next} traced: `stoa trace show` tells the way."))?;
            }
            What::Show { max, json, follow } => {
                if follow {
                    follow_on(&mut client).await?;
                } else {
                    let reply = client.show_trace(GetTraceRequest { max }).await?.into_inner();
                    let text = if json { trace::json(&reply) } else { trace::text(&reply) };
                    show::print(&text)?;
                }
            }
            What::Clear => {
                client.clear_trace(ClearTraceRequest {}).await?;
                show::print("The trace is forgotten.")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// How often a trace that is followed is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// Shows packets once each. One is shown at the second look: the first may come in the
/// middle of its way.
async fn follow_on(client: &mut Client) -> Result<(), Failure> {
    let (mut shown, mut seen) = (0, 0);
    loop {
        let reply = client.show_trace(GetTraceRequest { max: 0 }).await?.into_inner();
        if reply.interface.is_empty() {
            return show::print(trace::NOTHING).map_err(Failure::from);
        }
        let last = reply.packets.last().map_or(0, |packet| packet.number);
        if last < shown {
            // Somebody has started another trace.
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
        tokio::time::sleep(LOOK).await;
    }
}
