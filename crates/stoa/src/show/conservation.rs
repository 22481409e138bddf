//! Packet accounting: received + generated = sent + consumed + dropped + held.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{Conservation, GetConservationRequest};

use super::{Cell, count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let accounting = client.show_conservation(GetConservationRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", json(&accounting))?;
        return Ok(());
    }
    let mut shown = table(&["what", ">packets"]);
    for (what, packets) in [
        ("received", accounting.received),
        ("generated", accounting.generated),
        ("sent", accounting.sent),
        ("consumed", accounting.consumed),
        ("dropped", accounting.dropped),
        ("held", accounting.held),
        ("buffers", accounting.buffers),
        ("buffers free", accounting.buffers_free),
        ("buffers of waiting packets", accounting.buffers_waiting),
        ("buffers busy", accounting.buffers_busy),
    ] {
        shown.add_row(vec![Cell::new(what), count(packets)]);
    }
    write(&shown, out)?;
    writeln!(out, "{}", summary(&accounting))?;
    Ok(())
}

fn summary(accounting: &Conservation) -> &'static str {
    if accounting.balanced {
        "Packet accounting balances: every packet is accounted for."
    } else {
        "Packet accounting does not balance: packets are in transit. Run the command again without traffic."
    }
}

fn json(accounting: &Conservation) -> Value {
    json!({
        "received": accounting.received,
        "generated": accounting.generated,
        "sent": accounting.sent,
        "consumed": accounting.consumed,
        "dropped": accounting.dropped,
        "held": accounting.held,
        "balanced": accounting.balanced,
        "buffers": accounting.buffers,
        "buffers_free": accounting.buffers_free,
        "buffers_waiting": accounting.buffers_waiting,
        "buffers_busy": accounting.buffers_busy,
    })
}
