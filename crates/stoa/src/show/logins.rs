//! Hosts that have logged in.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::text::mac_text;
use stoa_api::v1::{ClearLoginsRequest, HostLogin, ShowLoginsRequest};
use stoa_wire::ethernet::Mac;

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
    #[arg(long, value_name = "MAC")]
    mac: Option<Mac>,
    /// Only hosts of this user
    #[arg(long, value_name = "USER", default_value = "", hide_default_value = true)]
    user: String,
}

impl LoginFilter {
    /// The request.
    pub fn request(&self) -> ClearLoginsRequest {
        ClearLoginsRequest {
            interface: self.interface.clone(),
            mac: self.mac.map(|it| it.0.to_vec()).unwrap_or_default(),
            user: self.user.clone(),
        }
    }
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
        "state",
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
            Cell::new(if it.is_standby { "standby" } else { "active" }),
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
        "address": it.address, "standby": it.is_standby,
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    #[test]
    fn a_host_is_named_by_its_mac_address() {
        let filter = |mac: &str| {
            let command = LoginFilter::augment_args(Command::new("clear"));
            let matches = command.try_get_matches_from(["clear", "--mac", mac])?;
            LoginFilter::from_arg_matches(&matches)
        };
        for mac in ["02:00:00:00:00:0A", "02-00-00-00-00-0a"] {
            assert_eq!(filter(mac).unwrap().request().mac, [2, 0, 0, 0, 0, 10], "{mac}");
        }
        for wrong in ["02:00:00:00:00", "+2:00:00:00:00:0a", "x"] {
            assert!(
                filter(wrong).unwrap_err().to_string().contains("not a MAC address"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn hosts_are_rows() {
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
