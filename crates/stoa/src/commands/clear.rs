//! `stoa clear`: counters from 0, no flows, or no trace.

use std::process::ExitCode;

use serde_json::{Value, json};
use stoa_api::v1::{
    ClearAclRequest, ClearCountersRequest, ClearFlowsRequest, ClearTraceRequest, ClearZonesRequest,
};

use crate::failure::{Outcome, plural};
use crate::operator::{SocketArgument, block_on};
use crate::show;
use crate::show::flow_filter::FlowFilter;
use crate::show::logins::LoginFilter;

/// Clear counters, hits of access lists, drops of zones, flows or the trace
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa clear counters              Count packets of all interfaces from 0
  stoa clear counters wan          Count those of one interface from 0
  stoa clear acl edge              Count hits of the rules of one access list from 0
  stoa clear zones                 Count what pairs of zones drop from 0
  stoa clear flows                 Forget the flows of stateful rules and NAT: TCP has to connect anew
  stoa clear flows --address 10.0.0.9 --protocol tcp   Only some, as in `stoa show flows`
  stoa clear logins --user ann     Log hosts of one user out; without a condition, all hosts
  stoa clear trace                 Stop tracing and remove the trace

Cleared counters concern `show interfaces`, `top`, `show acl` and `show zones` until the controller restarts.
Metrics, gNMI and RESTCONF go on counting, because programs that read them need counters that only grow.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Print one JSON object on one line
    #[arg(long, global = true)]
    json: bool,
    /// Socket of the running router [default: $STOA_SOCKET, else /run/stoa/stoa.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Count the packets of interfaces from 0
    Counters {
        /// Only this interface
        #[arg(value_name = "INTERFACE", default_value = "", hide_default_value = true)]
        interface: String,
    },
    /// Count the hits of access lists from 0
    Acl {
        /// Only this list
        #[arg(value_name = "LIST", default_value = "", hide_default_value = true)]
        acl: String,
    },
    /// Count the packets that pairs of zones drop, and SYN cookies, from 0
    Zones,
    /// Forget the flows of stateful rules and NAT: TCP has to connect anew
    Flows {
        #[command(flatten)]
        filter: FlowFilter,
    },
    /// Log hosts out: they have to log in again
    Logins {
        #[command(flatten)]
        filter: LoginFilter,
    },
    /// Stop tracing and remove the trace
    Trace,
}

/// What clearing so many flows means.
fn forgotten(flows: u64) -> String {
    let flows = plural(flows as usize, "flow");
    format!(
        "The router has forgotten {flows}; TCP connections must open anew, unless a flow profile is loose."
    )
}

/// Sends the request.
pub fn execute(arguments: Arguments) -> Outcome {
    let socket = SocketArgument::new(arguments.socket);
    let as_json = arguments.json;
    let say = |json: Value, text: &str| match as_json {
        true => show::print(&json.to_string()),
        false => show::print(text),
    };
    block_on(async {
        let mut client = socket.connect().await?;
        match arguments.what {
            What::Counters { interface } => {
                let request = ClearCountersRequest { interface };
                let cleared = client.clear_counters(request).await?.into_inner().interfaces;
                let interfaces = plural(cleared as usize, "interface");
                say(
                    json!({ "interfaces": cleared }),
                    &format!(
                        "Counters of {interfaces} begin at 0; metrics, gNMI and RESTCONF go on counting."
                    ),
                )?;
            }
            What::Acl { acl } => {
                let cleared = client.clear_acl(ClearAclRequest { acl }).await?.into_inner().rules;
                let rules = plural(cleared as usize, "rule");
                say(
                    json!({ "rules": cleared }),
                    &format!(
                        "Hits of {rules} begin at 0; metrics, gNMI and RESTCONF go on counting."
                    ),
                )?;
            }
            What::Zones => {
                let cleared = client.clear_zones(ClearZonesRequest {}).await?.into_inner().pairs;
                let pairs = plural(cleared as usize, "pair");
                say(
                    json!({ "pairs": cleared }),
                    &format!("Counters of {pairs} of zones begin at 0; metrics go on counting."),
                )?;
            }
            What::Flows { filter } => {
                let mut cleared = 0;
                for filter in filter.requests()? {
                    let request = ClearFlowsRequest { filter: Some(filter) };
                    cleared += client.clear_flows(request).await?.into_inner().flows;
                }
                let text = match (cleared, filter.is_all()) {
                    (0, false) => "No flow matches.".to_owned(),
                    _ => forgotten(cleared),
                };
                say(json!({ "flows": cleared }), &text)?;
            }
            What::Logins { filter } => {
                let ended = client.clear_logins(filter.request()).await?.into_inner().hosts;
                let text = match ended {
                    0 => "No host that has logged in matches.".to_owned(),
                    _ => format!("Logged out {}.", plural(ended as usize, "host")),
                };
                say(json!({ "hosts": ended }), &text)?;
            }
            What::Trace => {
                client.clear_trace(ClearTraceRequest {}).await?;
                say(json!({}), "The trace is removed.")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
