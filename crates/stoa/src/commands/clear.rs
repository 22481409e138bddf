//! `stoa clear`: counters from 0, no flows, or no trace.

use std::process::ExitCode;

use stoa_api::v1::{ClearAclRequest, ClearCountersRequest, ClearFlowsRequest, ClearTraceRequest};

use crate::failure::{Outcome, plural};
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Clear counters, hits of access lists, flows or the trace
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa clear counters              Count packets of all interfaces from 0
  stoa clear counters wan          Count those of one interface from 0
  stoa clear acl edge              Count hits of the rules of one access list from 0
  stoa clear flows                 Forget the flows of stateful rules: TCP has to connect anew
  stoa clear trace                 Stop tracing and remove the trace

Cleared counters concern `show interfaces`, `top` and `show acl` until the controller restarts. Metrics, gNMI
and RESTCONF go on counting, because programs that read them need counters that only grow.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
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
        #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
        acl: String,
    },
    /// Forget the flows of stateful rules: TCP has to connect anew
    Flows,
    /// Stop tracing and remove the trace
    Trace,
}

/// Sends the request.
pub fn execute(arguments: Arguments) -> Outcome {
    let socket = SocketArgument::new(arguments.socket);
    block_on(async {
        let mut client = socket.connect().await?;
        match arguments.what {
            What::Counters { interface } => {
                let request = ClearCountersRequest { interface };
                let cleared = client.clear_counters(request).await?.into_inner().interfaces;
                let interfaces = plural(cleared as usize, "interface");
                show::print(&format!(
                    "Counters of {interfaces} begin at 0; metrics, gNMI and RESTCONF go on counting."
                ))?;
            }
            What::Acl { acl } => {
                let cleared = client.clear_acl(ClearAclRequest { acl }).await?.into_inner().rules;
                let rules = plural(cleared as usize, "rule");
                show::print(&format!(
                    "Hits of {rules} begin at 0; metrics, gNMI and RESTCONF go on counting."
                ))?;
            }
            What::Flows => {
                let cleared = client.clear_flows(ClearFlowsRequest {}).await?.into_inner().flows;
                let flows = plural(cleared as usize, "flow");
                show::print(&format!(
                    "The router has forgotten {flows}; TCP connections must open anew, unless a flow profile is loose."
                ))?;
            }
            What::Trace => {
                client.clear_trace(ClearTraceRequest {}).await?;
                show::print("The trace is removed.")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
