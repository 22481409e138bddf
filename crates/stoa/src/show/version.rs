//! The version of the router and of what it runs on.

use std::io::Write;

use serde_json::json;
use stoa_api::v1::{StatusReply, StatusRequest};

use super::{duration, status, unix_s};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the version and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.status(StatusRequest {}).await?.into_inner();
    let command = env!("CARGO_PKG_VERSION");
    if as_json {
        let forwarder = reply.forwarder.as_ref().map(|it| &it.version);
        let kernel = reply.forwarder.as_ref().map(|it| &it.kernel);
        let answer = json!({
            "version": reply.version,
            "command": command,
            "forwarder": forwarder,
            "kernel": kernel,
            "started_unix_s": reply.started_unix_s,
            "needs_restart": status::outdated(&reply),
        });
        writeln!(out, "{answer}")?;
    } else {
        writeln!(out, "{}", text(&reply, command, unix_s()))?;
    }
    Ok(())
}

fn text(reply: &StatusReply, command: &str, now: u64) -> String {
    let up = duration(now.saturating_sub(reply.started_unix_s));
    let mut lines = vec![format!("Stoa {}", reply.version), format!("  command      {command}")];
    lines.push(format!("  controller   {}, up {up}", reply.version));
    match &reply.forwarder {
        Some(forwarder) => {
            lines.push(format!("  forwarder    {}", forwarder.version));
            lines.push(format!("  kernel       {}", forwarder.kernel));
        }
        None => lines.push("  forwarder    does not answer".to_owned()),
    }
    let outdated = status::outdated(reply);
    if !outdated.is_empty() {
        lines.push(format!(
            "  needs restart {}: `stoa upgrade` restarts it",
            outdated.join(" and ")
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoa_api::v1::HelloReply;

    #[test]
    fn every_part_has_its_version() {
        let forwarder =
            HelloReply { version: "0.1.9".into(), kernel: "6.1".into(), ..Default::default() };
        let reply = StatusReply {
            version: "0.2.0".into(),
            started_unix_s: 40,
            forwarder: Some(forwarder),
            ..StatusReply::default()
        };
        let expected = "Stoa 0.2.0\n  command      0.2.1\n  controller   0.2.0, up 1 min 0 s\n  \
                        forwarder    0.1.9\n  kernel       6.1";
        assert_eq!(text(&reply, "0.2.1", 100), expected);
    }
}
