//! What `stoa ping` and `stoa traceroute` share: the destination, the options, and the stream of results.

use std::net::{IpAddr, ToSocketAddrs};

use stoa_api::v1::probe_reply::Reply;
use stoa_api::v1::{ProbeReply, ProbeRequest, ProbeResult, ProbeStarted};
use stoa_api::{text, v1};
use tonic::Streaming;

use crate::failure::Failure;
use crate::operator::SocketArgument;

/// The options of both commands.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Address or name of the destination; a link-local address with its interface: fe80::1%eth0
    #[arg(value_name = "DESTINATION")]
    destination: String,
    /// Send from this address of the router, or from that of this interface [default: chosen by the route]
    #[arg(long, value_name = "ADDRESS|INTERFACE", default_value = "", hide_default_value = true)]
    source: String,
    /// Interface of a link-local destination, whose address is the source
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    interface: String,
    /// Use the routes of this VRF [default: the default VRF]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vrf: String,
    /// Data bytes of each request [default: 56]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=9000))]
    size: Option<u32>,
    /// Do not fragment requests, here or on the way
    #[arg(long)]
    df: bool,
    /// Wait this long for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    timeout: f64,
    /// Use IPv4 if the name has addresses of both families
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 if the name has addresses of both families
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgument,
}

/// A time between a hundredth of a second and a minute.
pub fn seconds(value: &str) -> Result<f64, String> {
    let seconds: f64 = value.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match (0.01..=60.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("choose 0.01 to 60 seconds".to_owned()),
    }
}

/// Seconds in milliseconds.
pub fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1000.0).round() as u32
}

impl Options {
    /// The destination, and the request with everything that the options say.
    ///
    /// # Errors
    /// The name has no address.
    pub fn request(&self) -> Result<(IpAddr, ProbeRequest), Failure> {
        let (name, zone) = match self.destination.split_once('%') {
            Some((name, zone)) => (name, zone),
            None => (&*self.destination, ""),
        };
        let destination = self.resolve(name)?;
        let source = self.source.parse().map(text::ip_bytes).unwrap_or_default();
        let of_source = if source.is_empty() { &*self.source } else { "" };
        let named = [&*self.interface, zone, of_source].into_iter().filter(|name| !name.is_empty());
        let named: Vec<&str> = named.collect();
        if let [first, .., last] = named[..]
            && first != last
        {
            let text = format!("{first} and {last} are two interfaces: name one");
            return Err(Failure::Usage(text));
        }
        let request = ProbeRequest {
            destination: text::ip_bytes(destination),
            vrf: self.vrf.clone(),
            source,
            interface: named.first().copied().unwrap_or_default().to_owned(),
            size: self.size,
            dont_fragment: self.df,
            timeout_ms: milliseconds(self.timeout),
            ..Default::default()
        };
        Ok((destination, request))
    }

    fn resolve(&self, name: &str) -> Result<IpAddr, Failure> {
        if let Ok(ip) = name.parse() {
            return Ok(ip);
        }
        let found = (name, 0).to_socket_addrs().map_err(|error| {
            Failure::Message(format!("{name} has no address: {error}. Name the address instead"))
        })?;
        let is_right = |ip: &IpAddr| !(self.ipv4 && ip.is_ipv6() || self.ipv6 && ip.is_ipv4());
        let mut found = found.map(|socket| socket.ip()).filter(is_right);
        let family = if self.ipv4 { "IPv4" } else { "IPv6" };
        found.next().ok_or_else(|| Failure::Message(format!("{name} has no {family} address")))
    }
}

/// The results of a series as they arrive.
pub struct Results(Streaming<ProbeReply>);

impl Results {
    /// Starts a series, and returns what it begins with.
    ///
    /// # Errors
    /// The router does not run, or refuses it.
    pub async fn start(
        socket: &SocketArgument,
        request: ProbeRequest,
    ) -> Result<(ProbeStarted, Results), Failure> {
        let mut client = socket.connect().await?;
        let mut stream = client.probe(request).await?.into_inner();
        match stream.message().await?.and_then(|reply| reply.reply) {
            Some(Reply::Started(started)) => Ok((started, Results(stream))),
            _ => Err(Failure::Message("the router ended the series before it began".into())),
        }
    }

    /// The next result; `None`: the series has ended, or the user ended it.
    ///
    /// # Errors
    /// The connection to the controller is gone.
    pub async fn next(&mut self) -> Result<Option<ProbeResult>, Failure> {
        let message = tokio::select! {
            message = self.0.message() => message?,
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        match message.and_then(|reply| reply.reply) {
            Some(Reply::Result(result)) => Ok(Some(result)),
            _ => Ok(None),
        }
    }
}

/// A result as JSON.
pub fn json(result: &ProbeResult) -> serde_json::Value {
    let state = match result.state() {
        v1::ProbeState::ProbeReply => "reply",
        v1::ProbeState::ProbeError => "error",
        v1::ProbeState::ProbeTimeout => "timeout",
        v1::ProbeState::ProbeRefused => "refused",
    };
    let mut json = serde_json::json!({
        "sequence": result.sequence,
        "ttl": result.ttl,
        "state": state,
    });
    if !result.from.is_empty() {
        json["from"] = text::ip_text(&result.from).into();
        json["rtt_us"] = result.rtt_us.into();
        json["answer_ttl"] = result.answer_ttl.into();
        json["bytes"] = result.size.into();
    }
    if !result.reason.is_empty() {
        json["reason"] = result.reason.clone().into();
    }
    json
}

/// A time as people read it: "0.412 ms".
pub fn time(us: u32) -> String {
    format!("{}.{:03} ms", us / 1000, us % 1000)
}
