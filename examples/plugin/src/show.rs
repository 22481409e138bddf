//! `stoa show dscp-filter`: the filters with their counters.

use serde_json::{Value, json};
use stoa::plugin::{Failure, Query, Shown, Topic, number, table, write};
use stoa_api::v1::{InterfaceState, ListInterfacesRequest};

use crate::NAME;
use crate::controller::State;

/// The topic.
pub struct DscpFilter;

impl Topic for DscpFilter {
    fn command(&self) -> clap::Command {
        clap::Command::new(NAME)
            .about("DSCP filters: what each interface drops, and how many packets")
    }

    fn show<'a>(&'a self, query: Query<'a>) -> Shown<'a> {
        Box::pin(show(query))
    }
}

async fn show(query: Query<'_>) -> Result<(), Failure> {
    let reply = query.client.show_interfaces(ListInterfacesRequest::default()).await?.into_inner();
    let filters = reply.interfaces.iter().filter_map(|it| Some((it, State::of(it)?)));
    if query.json {
        let filters: Vec<Value> = filters.map(json).collect();
        writeln!(query.out, "{}", json!({ "dscp_filters": filters }))?;
        return Ok(());
    }
    let mut table = table(&["interface", "drops", ">packets"]);
    for (interface, state) in filters {
        let dscps: Vec<String> = dscps(&state).map(|dscp| dscp.to_string()).collect();
        table.add_row(vec![interface.name.clone(), dscps.join(" "), number(state.dropped)]);
    }
    Ok(write(&table, query.out)?)
}

fn json((interface, state): (&InterfaceState, State)) -> Value {
    let dscps: Vec<u8> = dscps(&state).collect();
    json!({ "interface": interface.name, "drop": dscps, "dropped": state.dropped })
}

fn dscps(state: &State) -> impl Iterator<Item = u8> {
    let dscps = state.dscps;
    (0..64).filter(move |dscp| dscps >> dscp & 1 == 1)
}
