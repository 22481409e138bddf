//! State as YANG data: as it comes, for it is made for programs.

use std::io::Write;

use stoa_api::v1::ShowStateRequest;

use crate::failure::Failure;
use crate::operator::Client;

/// Asks for a path and so many routes at most, and shows: with `on_one_line`, as all JSON of the command line.
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
        .map_err(|error| Failure::because("the controller's answer is no JSON", error))?;
    writeln!(out, "{value}")?;
    Ok(())
}
