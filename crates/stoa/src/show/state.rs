//! State as YANG data (RFC 7951 JSON).

use std::io::Write;

use stoa_api::v1::ShowStateRequest;

use crate::failure::Failure;
use crate::operator::Client;

/// Requests the data at a path, with a maximum number of routes of each table, and prints it; `on_one_line` removes the
/// line breaks.
pub async fn show(
    client: &mut Client,
    (path, routes): (&str, Option<u32>),
    on_one_line: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let request = ShowStateRequest { path: path.to_owned(), routes };
    let json = client.show_state(request).await?.into_inner().json;
    if !on_one_line {
        writeln!(out, "{}", json.trim_end())?;
        return Ok(());
    }
    let value: serde_json::Value = serde_json::from_str(&json)
        .map_err(|error| Failure::context("the controller's answer is not JSON", error))?;
    writeln!(out, "{value}")?;
    Ok(())
}
