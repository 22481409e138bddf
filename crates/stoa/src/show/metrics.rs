//! Metrics: the text for Prometheus.

use std::io::Write;

use stoa_api::v1::ShowMetricsRequest;

use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, out: &mut dyn Write) -> Result<(), Failure> {
    let text = client.show_metrics(ShowMetricsRequest {}).await?.into_inner().text;
    out.write_all(text.as_bytes())?;
    Ok(())
}
