//! The books: received + generated = sent + consumed + dropped + held.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{Conservation, GetConservationRequest};

use super::{Cell, count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Asks and shows.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let books = client.show_conservation(GetConservationRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", json(&books))?;
        return Ok(());
    }
    let mut made = table(&["what", ">packets"]);
    for (what, packets) in [
        ("received", books.received),
        ("generated", books.generated),
        ("sent", books.sent),
        ("consumed", books.consumed),
        ("dropped", books.dropped),
        ("held", books.held),
        ("buffers", books.buffers),
        ("buffers free", books.buffers_free),
        ("buffers of waiting packets", books.buffers_waiting),
        ("buffers busy", books.buffers_busy),
    ] {
        made.add_row(vec![Cell::new(what), count(packets)]);
    }
    write(&made, out)?;
    writeln!(out, "{}", verdict(&books))?;
    Ok(())
}

fn verdict(books: &Conservation) -> &'static str {
    if books.balanced {
        "The books balance: every packet is accounted for."
    } else {
        "The books do not balance now: packets are on their way. Look again without traffic."
    }
}

fn json(books: &Conservation) -> Value {
    json!({
        "received": books.received,
        "generated": books.generated,
        "sent": books.sent,
        "consumed": books.consumed,
        "dropped": books.dropped,
        "held": books.held,
        "balanced": books.balanced,
        "buffers": books.buffers,
        "buffers_free": books.buffers_free,
        "buffers_waiting": books.buffers_waiting,
        "buffers_busy": books.buffers_busy,
    })
}
