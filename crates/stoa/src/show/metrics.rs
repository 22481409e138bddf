//! Metrics: the text that Prometheus reads.

use std::io::Write;

use stoa_api::v1::ShowMetricsRequest;

use crate::failure::Failure;
use crate::operator::Client;

/// Asks and shows.
pub async fn show(client: &mut Client, out: &mut dyn Write) -> Result<(), Failure> {
    let text = client.show_metrics(ShowMetricsRequest {}).await?.into_inner().text;
    out.write_all(text.as_bytes())?;
    Ok(())
}
