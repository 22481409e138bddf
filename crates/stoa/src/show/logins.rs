//! Hosts that have logged in.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{ClearLoginsRequest, HostLogin, ShowLoginsRequest};

use super::{duration, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Which hosts `stoa clear logins` means: those that meet all conditions.
#[derive(Debug, Default, clap::Args)]
pub struct LoginFilter {
    /// Only hosts of this interface
    #[arg(long, value_name = "INTERFACE", default_value = "", hide_default_value = true)]
    interface: String,
    /// Only the host with this MAC address
    #[arg(long, value_name = "MAC", value_parser = mac)]
    mac: Option<[u8; 6]>,
    /// Only hosts of this user
    #[arg(long, value_name = "USER", default_value = "", hide_default_value = true)]
    user: String,
}

impl LoginFilter {
    /// The request.
    pub fn request(&self) -> ClearLoginsRequest {
        ClearLoginsRequest {
            interface: self.interface.clone(),
            mac: self.mac.map(Vec::from).unwrap_or_default(),
            user: self.user.clone(),
        }
    }
}

/// A MAC address as operators write it.
fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> =
        text.split([':', '-']).map(|part| u8::from_str_radix(part, 16).ok()).collect();
    let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    bytes.ok_or_else(|| "it is not a MAC address, such as 02:00:00:00:00:09".to_owned())
}

fn mac_text(mac: &[u8]) -> String {
    let parts: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

/// Requests the logins and prints them.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let hosts = client.show_logins(ShowLoginsRequest {}).await?.into_inner().hosts;
    if as_json {
        let hosts: Vec<Value> = hosts.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "hosts": hosts }))?;
    } else if hosts.is_empty() {
        writeln!(out, "No host has logged in.")?;
    } else {
        write(&to_table(&hosts), out)?;
    }
    Ok(())
}

fn to_table(hosts: &[HostLogin]) -> Table {
    let mut table = table(&[
        "interface",
        "host",
        "user",
        "by",
        ">since",
        ">idle",
        ">left",
        ">sent",
        ">received",
    ]);
    for it in hosts {
        table.add_row([
            Cell::new(&it.interface),
            Cell::new(mac_text(&it.mac)),
            Cell::new(&it.user),
            Cell::new(&it.method),
            Cell::new(duration(it.age_s)),
            Cell::new(duration(it.idle_s)),
            Cell::new(it.remaining_s.map(duration).unwrap_or_default()),
            Cell::new(number(it.in_bytes)),
            Cell::new(number(it.out_bytes)),
        ]);
    }
    table
}

fn to_json(it: &HostLogin) -> Value {
    json!({
        "interface": it.interface, "mac": mac_text(&it.mac), "user": it.user, "method": it.method,
        "age_s": it.age_s, "idle_s": it.idle_s, "remaining_s": it.remaining_s,
        "remaining_bytes": it.remaining_bytes, "in_packets": it.in_packets, "in_bytes": it.in_bytes,
        "out_packets": it.out_packets, "out_bytes": it.out_bytes, "session_id": it.session_id,
        "address": it.address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_rows() {
        assert_eq!(mac("02:00:00:00:00:0A"), Ok([2, 0, 0, 0, 0, 10]));
        assert!(mac("02:00:00:00:00").is_err() && mac("x").is_err());
        let host = HostLogin {
            interface: "guests".to_owned(),
            mac: vec![2, 0, 0, 0, 0, 10],
            user: "ann".to_owned(),
            method: "local".to_owned(),
            age_s: 61,
            in_bytes: 1_234,
            ..HostLogin::default()
        };
        let text = to_table(std::slice::from_ref(&host)).to_string();
        for part in ["guests", "02:00:00:00:00:0a", "ann", "1 min 1 s", "1,234"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(to_json(&host)["remaining_s"], Value::Null);
    }
}
