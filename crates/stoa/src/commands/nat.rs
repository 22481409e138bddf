//! `stoa nat`: who has an external address and port.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned, civil};
use serde_json::{Value, json};
use stoa_api::acl::protocol_name;
use stoa_api::date;
use stoa_api::nat::user_of;
use stoa_api::text::{ip_bytes, ip_text};
use stoa_api::v1::{NatPolicy, NatUser, NatWhoisReply, NatWhoisRequest};
use stoa_controller::configuration::Configuration;
use stoa_wire::protocol::TCP;

use crate::failure::{Failure, Outcome};
use crate::named;
use crate::operator::{SocketArgument, block_on};
use crate::show::{self, duration};

/// Ask who has an external address and port of NAT, and which ones a host has
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa nat whois 203.0.113.17 40112                        The inside host that sends TCP from this address and port
  stoa nat whois 203.0.113.17 domain udp                   The same of UDP: a port or the name of its service
  stoa nat whois 203.0.113.17 7 icmp                       Of pings: their identifier
  stoa nat whois 203.0.113.17 40112 2026-11-29T08:00:00Z   Who had its port set then
  stoa nat whois 100.64.3.7                                Which port sets an inside host has
  stoa nat whois 2001:db8:1::7                             Which external addresses and ports a host has by NAT64
  stoa nat whois 100.64.3.7 --at 2026-11-29T08:00:00Z      Which ones it had then
  stoa nat whois 203.0.113.17 40112 --file cgn.json        By a configuration alone, with deterministic port sets

Without a time it answers about now. `stoa show nat` shows the policies, `stoa show nat mappings` all dynamic mappings.
The exit code is 0 if somebody has it, 3 if nobody has, 4 if nothing is known of that time, 1 after an error, and 2 for
a wrong command. Of a time in the past, only port sets and static mappings are known: without port sets, ask a collector
of IPFIX.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Which inside host has an external address and port, or what an inside host has
    Whois(Whois),
}

#[derive(Debug, clap::Args)]
struct Whois {
    /// External IPv4 address; without a port, an inside one of IPv4, or of IPv6 for NAT64
    #[arg(value_name = "ADDRESS")]
    address: IpAddr,
    /// External port: a number, or a service such as https; of ICMP the identifier
    #[arg(value_name = "PORT", value_parser = named::port)]
    port: Option<u16>,
    /// Protocol: tcp (the default), udp, icmp or a number; and a time, such as 2026-11-29T08:00:00Z
    #[arg(value_name = "PROTOCOL|TIME", num_args = 0..=2)]
    more: Vec<String>,
    /// At this time, such as 2026-11-29T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<u64>,
    /// Only in this VRF, such as default
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    vrf: Option<String>,
    /// Compute it from a configuration in this file, without a router: deterministic port sets only
    #[arg(long, value_name = "FILE")]
    file: Option<std::path::PathBuf>,
    /// Print one JSON object on one line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// A time as seconds since 1970. Without an offset it is that of UTC.
fn time(text: &str) -> Result<u64, String> {
    let in_utc = || -> Result<Zoned, jiff::Error> {
        text.parse::<civil::DateTime>()?.to_zoned(TimeZone::UTC)
    };
    // A date alone would be its midnight.
    let time = text
        .contains(':')
        .then(|| text.parse::<Timestamp>().or_else(|_| in_utc().map(|it| it.timestamp())).ok());
    let seconds = time.flatten().and_then(|it| u64::try_from(it.as_second()).ok());
    seconds.ok_or_else(|| "write a time as 2026-11-29T08:00:00Z".to_owned())
}

/// The exit code if nobody has it: neither a success nor a failure.
const NOBODY: u8 = 3;
/// The exit code if nothing is known of the time of a question.
const NOT_KNOWN: u8 = 4;

/// Prints who it is. The exit code is 0 if somebody has it, 3 if nobody has, and 4 if that is not known.
pub fn execute(arguments: Arguments) -> Outcome {
    let Action::Whois(whois) = arguments.action;
    let request = whois.request()?;
    let reply = match &whois.file {
        Some(file) => by_file(file, &request)?,
        None => block_on(async {
            let mut client = whois.socket.connect().await?;
            Ok(client.nat_whois(request.clone()).await?.into_inner())
        })?,
    };
    show::print(&match (whois.json, &whois.file) {
        (true, _) => to_json(&request, &reply),
        (false, Some(_)) if reply.users.is_empty() => {
            let whom = whom(&request);
            format!(
                "No deterministic port set of the file has {whom}. Ask the router about other ones."
            )
        }
        (false, _) => text(&request, &reply),
    })?;
    Ok(ExitCode::from(exit_code(&request, &reply)))
}

fn exit_code(request: &NatWhoisRequest, reply: &NatWhoisReply) -> u8 {
    match (reply.users.is_empty(), is_before_all(request, reply)) {
        (false, _) => 0,
        (true, false) => NOBODY,
        (true, true) => NOT_KNOWN,
    }
}

impl Whois {
    fn request(&self) -> Result<NatWhoisRequest, Failure> {
        let vrf = self.vrf.clone().filter(|name| name != "all");
        let (mut unix_s, mut protocol) = (self.at, None);
        for word in &self.more {
            match word.contains(['-', ':']) {
                true => unix_s = Some(time(word).map_err(Failure::Usage)?),
                false => protocol = Some(named::protocol(word, true)?),
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if unix_s.is_some() && self.file.is_some() {
            let text = "--file computes port sets, and knows no times: use the file of that time";
            return Err(Failure::Usage(text.to_owned()));
        }
        if let Some(at) = unix_s.filter(|at| *at > now) {
            let at = date::of_unix_s(at);
            return Err(Failure::Usage(format!("{at} is in the future: use a time until now")));
        }
        if self.address.is_ipv6() && (self.port.is_some() || self.file.is_some()) {
            let text = "an IPv6 host has no external address: ask the router for it without a port and without --file";
            return Err(Failure::Usage(text.to_owned()));
        }
        let address = ip_bytes(self.address);
        let (external, internal) = match self.port {
            Some(_) => (address, Vec::new()),
            None => (Vec::new(), address),
        };
        Ok(NatWhoisRequest {
            external,
            port: self.port.map_or(0, u32::from),
            protocol: protocol.unwrap_or(u32::from(TCP)),
            vrf: vrf.map(|name| if name == "default" { String::new() } else { name }),
            unix_s,
            internal,
        })
    }
}

/// The answer of the policies in a file.
fn by_file(file: &std::path::Path, request: &NatWhoisRequest) -> Result<NatWhoisReply, Failure> {
    let configuration = Configuration::read(file).map_err(|errors| {
        Failure::ValidationErrors(format!("{} is not valid:", file.display()), errors)
    })?;
    let policies = configuration.desired.nat.unwrap_or_default().policies;
    let is_deterministic = |it: &NatPolicy| it.blocks.is_some_and(|it| it.deterministic);
    if !policies.iter().any(is_deterministic) {
        let file = file.display();
        let text = format!(
            "{file} has no deterministic port sets, and no other ones follow from a configuration: ask the \
             router, without --file"
        );
        return Err(Failure::Message(text));
    }
    let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(u32::from_be_bytes);
    let external = address(&request.external).zip(u16::try_from(request.port).ok());
    let internal = address(&request.internal);
    let users = policies.iter().filter_map(|it| user_of(it, internal, external)).collect();
    Ok(NatWhoisReply { users, known_since_unix_s: 0 })
}

/// What an entry is, in words.
fn kind(user: &NatUser) -> String {
    let NatUser { instance, id, .. } = user;
    match user.kind.as_str() {
        "static" => format!("static mapping {id} of instance {instance}"),
        "mapping" => format!("mapping of policy {id} of instance {instance}"),
        "port-set" => format!("port set of policy {id} of instance {instance}"),
        "deterministic" => format!("deterministic port set of policy {id} of instance {instance}"),
        _ => format!("flow of policy {id} of instance {instance}"),
    }
}

/// A subscriber, and its ports.
fn of_block(user: &NatUser) -> String {
    let subscriber = match user.internal_length {
        32 => ip_text(&user.internal),
        length => format!("{}/{length}", ip_text(&user.internal)),
    };
    let NatUser { first_port, last_port, .. } = user;
    let ports = format!("{} ports {first_port} to {last_port}", ip_text(&user.external));
    let times = match (user.allocated_unix_s, user.released_unix_s) {
        (0, 0) if user.age_s > 0 => format!(", for {}", duration(user.age_s.into())),
        (0, 0) => String::new(),
        (0, to) => format!(", until {}", date::of_unix_s(to)),
        (from, 0) => format!(", since {}", date::of_unix_s(from)),
        (from, to) => format!(", from {} to {}", date::of_unix_s(from), date::of_unix_s(to)),
    };
    let held = user.unused_s.map_or_else(String::new, |seconds| {
        format!(", held without ports in use for {}", duration(seconds.into()))
    });
    format!("{subscriber}{}, {ports}: {}{times}{held}", of_vrf(user), kind(user))
}

fn of_vrf(user: &NatUser) -> String {
    match user.internal_vrf.as_str() {
        "" => String::new(),
        name => format!(" of VRF {name}"),
    }
}

/// Whether nothing is known of the time of a question.
fn is_before_all(request: &NatWhoisRequest, reply: &NatWhoisReply) -> bool {
    let since = reply.known_since_unix_s;
    request.unix_s.is_some_and(|at| since == 0 || at < since)
}

/// Whom a question is about.
fn whom(request: &NatWhoisRequest) -> String {
    if request.external.is_empty() {
        return ip_text(&request.internal);
    }
    let (address, port) = (ip_text(&request.external), request.port);
    format!("{address} port {port} of {}", protocol_name(request.protocol))
}

/// The answer that there is none.
fn nobody(request: &NatWhoisRequest, reply: &NatWhoisReply) -> String {
    let whom = whom(request);
    if is_before_all(request, reply) {
        return match reply.known_since_unix_s {
            0 => format!(
                "Not known of {whom}: there were no events of port sets yet, and without port sets only IPFIX \
                 keeps who had a port."
            ),
            since => {
                let since = date::of_unix_s(since);
                format!("Not known of {whom}: the events of port sets begin at {since}.")
            }
        };
    }
    match (request.external.is_empty(), request.unix_s.map(date::of_unix_s)) {
        (true, None) if request.internal.len() == 16 => format!("{whom} has no flow by NAT64 now."),
        (true, None) => format!(
            "{whom} has no port set now: see `stoa show nat mappings --subscriber {whom}`. Who has a port of an \
             external address is known with the port, for example `stoa nat whois {whom} 40112`."
        ),
        (true, Some(at)) => format!("{whom} had no port set at {at}."),
        (false, None) => format!("Nobody has {whom} now."),
        (false, Some(at)) => format!("Nobody had {whom} at {at}."),
    }
}

fn text(request: &NatWhoisRequest, reply: &NatWhoisReply) -> String {
    if reply.users.is_empty() {
        return nobody(request, reply);
    }
    let whom = whom(request);
    // What follows from the configuration may have been another one then.
    let now = |user: &NatUser| match (request.unix_s, user.kind.as_str()) {
        (Some(_), "static" | "deterministic") => ", by the configuration of now",
        _ => "",
    };
    let line = |user: &NatUser| {
        if matches!(user.kind.as_str(), "port-set" | "deterministic") {
            return format!("{}{}", of_block(user), now(user));
        }
        let remote = match user.remote.is_empty() {
            true => String::new(),
            false => format!(", with {} port {}", ip_text(&user.remote), user.remote_port),
        };
        let age = match user.kind.as_str() {
            "static" => String::new(),
            _ => format!(", for {}", duration(user.age_s.into())),
        };
        let (internal, vrf) = (ip_text(&user.internal), of_vrf(user));
        let (port, kind, now) = (user.internal_port, kind(user), now(user));
        let external = match user.external.is_empty() {
            true => String::new(),
            false => format!("{} port {} is ", ip_text(&user.external), user.first_port),
        };
        format!("{external}{internal} port {port}{vrf}{remote}: {kind}{age}{now}")
    };
    let lines: Vec<String> = reply.users.iter().map(line).collect();
    let (verb, when) = match request.unix_s {
        Some(at) => ("was", format!(" at {}", date::of_unix_s(at))),
        None => ("is", String::new()),
    };
    match request.external.is_empty() {
        true => lines.join("\n"),
        false => format!("{whom} {verb}{when}\n{}", lines.join("\n")),
    }
}

fn to_json(request: &NatWhoisRequest, reply: &NatWhoisReply) -> String {
    let known = |value: u64| (value > 0).then_some(value);
    let user = |user: &NatUser| {
        let remote = (!user.remote.is_empty()).then(|| ip_text(&user.remote));
        let is_block = matches!(user.kind.as_str(), "port-set" | "deterministic");
        let external = (!is_block && !user.external.is_empty()).then(|| ip_text(&user.external));
        let block = is_block.then(|| {
            json!({
                "subscriber": format!("{}/{}", ip_text(&user.internal), user.internal_length),
                "external": ip_text(&user.external),
                "first_port": user.first_port,
                "last_port": user.last_port,
                "allocated_unix_s": known(user.allocated_unix_s),
                "released_unix_s": known(user.released_unix_s),
                "unused_s": user.unused_s,
            })
        });
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
            "external_port": external.as_ref().map(|_| user.first_port),
            "external": external,
            "port_set": block,
        })
    };
    let users: Vec<Value> = reply.users.iter().map(user).collect();
    let is_known = !users.is_empty() || !is_before_all(request, reply);
    let since = known(reply.known_since_unix_s);
    json!({ "users": users, "is_known": is_known, "known_since_unix_s": since }).to_string()
}

#[cfg(test)]
mod tests;
