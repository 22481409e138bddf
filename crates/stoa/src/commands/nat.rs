//! `stoa nat`: who has an external address and port.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use serde_json::{Value, json};
use stoa_api::acl::protocol_name;
use stoa_api::text::{ip_bytes, ip_text};
use stoa_api::v1::{NatUser, NatWhoisReply, NatWhoisRequest};

use crate::failure::{Failure, Outcome};
use crate::named;
use crate::operator::{SocketArgument, block_on};
use crate::show::{self, duration};

/// Ask who has an external address and port of NAT
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa nat whois 203.0.113.17 40112          The inside host that sends TCP from this address and port
  stoa nat whois 203.0.113.17 domain udp     The same of UDP: a port or the name of its service
  stoa nat whois 203.0.113.17 7 icmp         Of pings: their identifier

It answers about now. `stoa show nat` shows the policies, `stoa show nat mappings` all dynamic mappings.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Which inside host has an external address and port now
    Whois(Whois),
}

#[derive(Debug, clap::Args)]
struct Whois {
    /// External IPv4 address
    #[arg(value_name = "ADDRESS")]
    address: Ipv4Addr,
    /// External port: a number, or a service such as https; of ICMP the identifier
    #[arg(value_name = "PORT", value_parser = named::port)]
    port: u16,
    /// Protocol: tcp, udp, icmp or a number
    #[arg(value_name = "PROTOCOL", default_value = "tcp")]
    protocol: String,
    /// Only in this VRF, such as default
    #[arg(long, value_name = "NAME")]
    vrf: Option<String>,
    /// Print one JSON object on one line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Prints who it is. The exit code is 0 if somebody has it.
pub fn execute(arguments: Arguments) -> Outcome {
    let Action::Whois(whois) = arguments.action;
    let request = whois.request()?;
    let reply = block_on(async {
        let mut client = whois.socket.connect().await?;
        Ok(client.nat_whois(request.clone()).await?.into_inner())
    })?;
    show::print(&if whois.json { to_json(&reply) } else { text(&request, &reply) })?;
    Ok(if reply.users.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Whois {
    fn request(&self) -> Result<NatWhoisRequest, Failure> {
        let vrf = self.vrf.clone().filter(|name| name != "all");
        Ok(NatWhoisRequest {
            external: ip_bytes(self.address.into()),
            port: self.port.into(),
            protocol: named::protocol(&self.protocol, true)?,
            vrf: vrf.map(|name| if name == "default" { String::new() } else { name }),
        })
    }
}

/// What an entry is, in words.
fn kind(user: &NatUser) -> String {
    let NatUser { instance, id, .. } = user;
    match user.kind.as_str() {
        "static" => format!("static mapping {id} of instance {instance}"),
        "mapping" => format!("mapping of policy {id} of instance {instance}"),
        _ => format!("flow of policy {id} of instance {instance}"),
    }
}

fn text(request: &NatWhoisRequest, reply: &NatWhoisReply) -> String {
    let (address, port) = (ip_text(&request.external), request.port);
    let protocol = protocol_name(request.protocol);
    if reply.users.is_empty() {
        return format!("Nobody has {address} port {port} of {protocol} now.");
    }
    let line = |user: &NatUser| {
        let vrf = match user.internal_vrf.as_str() {
            "" => String::new(),
            name => format!(" of VRF {name}"),
        };
        let remote = match user.remote.is_empty() {
            true => String::new(),
            false => format!(", with {} port {}", ip_text(&user.remote), user.remote_port),
        };
        let age = match user.kind.as_str() {
            "static" => String::new(),
            _ => format!(", for {}", duration(user.age_s.into())),
        };
        let internal = ip_text(&user.internal);
        format!("{internal} port {}{vrf}{remote}: {}{age}", user.internal_port, kind(user))
    };
    let lines: Vec<String> = reply.users.iter().map(line).collect();
    format!("{address} port {port} of {protocol} is\n{}", lines.join("\n"))
}

fn to_json(reply: &NatWhoisReply) -> String {
    let user = |user: &NatUser| {
        let remote = (!user.remote.is_empty()).then(|| ip_text(&user.remote));
        json!({
            "kind": user.kind,
            "internal": ip_text(&user.internal),
            "internal_port": user.internal_port,
            "internal_vrf": user.internal_vrf,
            "remote_port": remote.as_ref().map(|_| user.remote_port),
            "remote": remote,
            "instance": user.instance,
            "id": user.id,
            "age_s": user.age_s,
        })
    };
    let users: Vec<Value> = reply.users.iter().map(user).collect();
    json!({ "users": users }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_hosts_and_where_they_come_from() {
        let request = NatWhoisRequest {
            external: vec![203, 0, 113, 17],
            port: 40_112,
            protocol: 6,
            vrf: None,
        };
        let nobody = NatWhoisReply::default();
        assert_eq!(text(&request, &nobody), "Nobody has 203.0.113.17 port 40112 of tcp now.");
        let user = NatUser {
            kind: "flow".to_owned(),
            internal: vec![10, 0, 0, 7],
            internal_port: 5_000,
            remote: vec![198, 51, 100, 9],
            remote_port: 443,
            instance: 1,
            id: 10,
            age_s: 61,
            ..NatUser::default()
        };
        let fixed = NatUser { kind: "static".to_owned(), remote: Vec::new(), ..user.clone() };
        let reply = NatWhoisReply { users: vec![user, fixed] };
        assert_eq!(
            text(&request, &reply),
            "203.0.113.17 port 40112 of tcp is\n\
             10.0.0.7 port 5000, with 198.51.100.9 port 443: flow of policy 10 of instance 1, for 1 min 1 s\n\
             10.0.0.7 port 5000: static mapping 10 of instance 1"
        );
        let json: Value = serde_json::from_str(&to_json(&reply)).unwrap();
        assert_eq!(
            (&json["users"][0]["remote_port"], &json["users"][1]["remote"]),
            (&json!(443), &Value::Null)
        );
    }
}
