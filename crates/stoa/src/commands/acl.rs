//! `stoa acl`: which rule of the access lists decides about a packet.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use stoa_api::acl::flags_of;
use stoa_api::text::ip_bytes;
use stoa_api::v1::{AclFragment, TestAclReply, TestAclRequest};
use stoa_controller::acl::{Packet, evaluate};
use stoa_controller::configuration::Configuration;

use crate::failure::{Failure, Outcome, plural};
use crate::named;
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Ask the access lists about a packet
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa acl test --interface wan --direction in --source 203.0.113.9 --destination 10.0.0.2 \\
      --protocol tcp --destination-port https
  stoa acl test --interface wan --direction in --source 2001:db8::9 --destination 2001:db8:1::2 \\
      --protocol icmp --icmp-type packet-too-big --candidate
  stoa acl test --interface lan --output wan --source 10.0.0.2 --destination 203.0.113.9 \\
      --protocol tcp --destination-port 443  On its whole way: lists of both interfaces and of their zones
  stoa acl test --from-zone lan --to-zone router ...   Between zones; router is the router itself
  stoa acl test ... --candidate new.json     In the configuration of a file; needs no running router

`stoa show acl` shows the rules with their hits.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Which rule decides about a packet, and why
    Test(Box<Test>),
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Direction {
    In,
    Out,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    First,
    Later,
}

#[derive(Debug, clap::Args)]
struct Test {
    /// The interface that receives or sends the packet
    #[arg(long, value_name = "NAME", required_unless_present_any = ["from_zone", "to_zone"])]
    interface: Option<String>,
    /// Received (in) or sent (out) [default: in, if a zone or the output is named]
    #[arg(long, value_enum, required_unless_present_any = ["output", "from_zone", "to_zone"])]
    direction: Option<Direction>,
    /// The interface that sends the packet, which the other one receives: the pair of their zones decides, too
    #[arg(long, value_name = "NAME", requires = "interface")]
    output: Option<String>,
    /// The zone that the packet comes from [default: that of the receiving interface]
    #[arg(long, value_name = "ZONE")]
    from_zone: Option<String>,
    /// The zone that the packet goes to [default: that of the sending interface]
    #[arg(long, value_name = "ZONE")]
    to_zone: Option<String>,
    /// Source address
    #[arg(long, value_name = "ADDRESS")]
    source: IpAddr,
    /// Destination address
    #[arg(long, value_name = "ADDRESS")]
    destination: IpAddr,
    /// Protocol: tcp, udp, icmp, gre, esp, ospf, vrrp, sctp or a number
    #[arg(long, value_name = "PROTOCOL")]
    protocol: String,
    /// Source port of TCP or UDP: a number, or a service such as https
    #[arg(long, value_name = "PORT", default_value_t = 49_152, value_parser = named::port)]
    source_port: u16,
    /// Destination port of TCP or UDP: a number, or a service such as https
    #[arg(long, value_name = "PORT", default_value_t = 0, value_parser = named::port)]
    destination_port: u16,
    /// Type of ICMP: a number, or a name such as echo-reply [default: echo-request]
    #[arg(long, value_name = "TYPE")]
    icmp_type: Option<String>,
    /// Code of ICMP
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    icmp_code: u8,
    /// Flags of TCP, such as syn,ack
    #[arg(long, value_name = "FLAGS", default_value = "syn")]
    tcp_flags: String,
    /// The packet is a fragment
    #[arg(long, value_enum)]
    fragment: Option<Part>,
    /// Bytes of the IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    length: u16,
    /// Differentiated services code point
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=63))]
    dscp: u32,
    /// TTL or hop limit
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=255))]
    ttl: u32,
    /// Ask the candidate configuration, or that of a file, instead of the running one
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    candidate: Option<Option<PathBuf>>,
    /// Print one JSON object on one line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Prints what becomes of the packet. The exit code is 0 if the packet passes.
pub fn execute(arguments: Arguments) -> Outcome {
    let Action::Test(test) = arguments.action;
    let request = test.request()?;
    let reply = match &test.candidate {
        Some(Some(file)) => test.in_file(file, request)?,
        _ => block_on(async {
            let mut client = test.socket.connect().await?;
            Ok(client.test_acl(request).await?.into_inner())
        })?,
    };
    show::print(&if test.json { to_json(&reply) } else { text(&reply) })?;
    Ok(if reply.action == "accept" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Test {
    fn request(&self) -> Result<TestAclRequest, Failure> {
        let is_ip4 = self.source.is_ipv4();
        if is_ip4 != self.destination.is_ipv4() {
            let text = format!(
                "{} and {} are of different families: use two addresses of one family",
                self.source, self.destination
            );
            return Err(Failure::Message(text));
        }
        let protocol = named::protocol(&self.protocol, is_ip4)?;
        let tcp_flags = flags_of(&self.tcp_flags).ok_or_else(|| {
            Failure::Message(format!(
                "{:?} are no flags of TCP: use fin, syn, rst, psh, ack, urg, ece and cwr, with commas between",
                self.tcp_flags
            ))
        })?;
        let icmp_type = self.icmp_type.as_deref().unwrap_or("echo-request");
        let icmp_type = named::icmp_type(icmp_type, is_ip4)?;
        Ok(TestAclRequest {
            candidate: self.candidate.is_some(),
            interface: self.interface.clone().unwrap_or_default(),
            direction: if matches!(self.direction, Some(Direction::Out)) { "out" } else { "in" }
                .to_owned(),
            output: self.output.clone().unwrap_or_default(),
            from_zone: self.from_zone.clone().unwrap_or_default(),
            to_zone: self.to_zone.clone().unwrap_or_default(),
            source: ip_bytes(self.source),
            destination: ip_bytes(self.destination),
            protocol,
            source_port: self.source_port.into(),
            destination_port: self.destination_port.into(),
            icmp_type: icmp_type.into(),
            icmp_code: self.icmp_code.into(),
            tcp_flags,
            fragment: match self.fragment {
                None => AclFragment::NoFragment,
                Some(Part::First) => AclFragment::FirstFragment,
                Some(Part::Later) => AclFragment::LaterFragment,
            }
            .into(),
            length: self.length.into(),
            dscp: self.dscp,
            hop_limit: self.ttl,
            ..TestAclRequest::default()
        })
    }

    /// What becomes of the packet in the configuration of a file.
    fn in_file(&self, file: &Path, of: TestAclRequest) -> Result<TestAclReply, Failure> {
        let configuration = Configuration::read(file).map_err(|errors| {
            let first = errors.first().map(|it| format!("{}: {}", it.path, it.cause));
            Failure::Message(format!(
                "{} is not valid: {}; `stoa check {}` lists all errors",
                file.display(),
                first.unwrap_or_default(),
                file.display()
            ))
        })?;
        let packet = Packet { source: self.source, destination: self.destination, of };
        evaluate(&configuration, &packet).map_err(Failure::Message)
    }
}

fn text(reply: &TestAclReply) -> String {
    let mut lines = Vec::new();
    let at = if reply.place.is_empty() { String::new() } else { format!(" at {}", reply.place) };
    match reply.rule.as_str() {
        "" => lines.push(format!("{}{at}: {}", reply.action, reply.reason)),
        rule => {
            lines.push(format!("{} by rule {rule} of access list {}{at}", reply.action, reply.acl));
            lines.push(format!("  {}", reply.reason));
            let flow = "  it begins a flow, whose other packets pass without a rule";
            lines.extend(reply.stateful.then(|| flow.to_owned()));
        }
    }
    if reply.has_flows && reply.action != "accept" {
        lines.push(
            "  unless it belongs to a flow, whose packets and replies pass without a rule"
                .to_owned(),
        );
    }
    if reply.passed_total > 0 {
        let before = plural(reply.passed_total as usize, "rule");
        let verb = if reply.passed_total == 1 { "does" } else { "do" };
        lines.push(format!("{before} before {verb} not match:"));
        let miss = reply.passed.iter().map(|it| format!("  {} {}: {}", it.acl, it.rule, it.reason));
        lines.extend(miss);
        let more = reply.passed_total - reply.passed.len() as u64;
        lines.extend((more > 0).then(|| format!("  and {more} more")));
    }
    lines.join("\n")
}

fn to_json(reply: &TestAclReply) -> String {
    let miss = reply.passed.iter();
    let passed: Vec<_> =
        miss.map(|it| json!({ "acl": it.acl, "rule": it.rule, "reason": it.reason })).collect();
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    json!({
        "action": reply.action,
        "acl": named(&reply.acl),
        "rule": named(&reply.rule),
        "reason": reply.reason,
        "place": named(&reply.place),
        "stateful": reply.stateful,
        "has_flows": reply.has_flows,
        "passed": passed,
        "passed_total": reply.passed_total,
    })
    .to_string()
}
