//! What is exported, and to whom.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use stoa_api::text::{ip, ip_bytes};
use stoa_api::v1;
use stoa_wire::ipfix::LEAST;

/// The largest message: what UDP over IPv4 carries.
const MOST: usize = 65_507;

/// Collectors, at most.
pub const COLLECTORS: usize = 8;

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorSettings {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub to: SocketAddr,
    /// The address to send from; `None`: the system chooses.
    pub source: Option<IpAddr>,
    /// Whether over TCP; otherwise over UDP.
    pub is_tcp: bool,
}

/// All settings. Without collectors nothing is exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The collectors.
    pub collectors: Vec<CollectorSettings>,
    /// Seconds after which a flow that goes on is reported again.
    pub active_s: u32,
    /// Seconds without packets after which a flow is reported.
    pub idle_s: u32,
    /// Seconds between templates over UDP, and between statistics.
    pub template_s: u32,
    /// One of so many flows.
    pub sampling: u32,
    /// The observation domain of all messages.
    pub domain: u32,
    /// Bytes of a message, at most.
    pub message_size: usize,
    /// Whether a record has both directions.
    pub is_biflow: bool,
    /// Whether flows are exported.
    pub flows: bool,
    /// Whether begin and end of translated flows are.
    pub nat_sessions: bool,
    /// Whether other events of address translation are.
    pub nat_events: bool,
    /// Whether packets that rules with a log refuse are.
    pub denials: bool,
}

fn collector(message: &v1::IpfixCollector) -> Result<CollectorSettings, (String, &'static str)> {
    let name = message.name.clone();
    let port = u16::try_from(message.port).ok().filter(|port| *port > 0);
    let (Some(address), Some(port)) = (ip(&message.address), port) else {
        let cause = format!("collector {name:?} has no address with a port");
        return Err((cause, "Use an IP address, and a port from 1 to 65,535."));
    };
    let source = match &message.source[..] {
        [] => None,
        source => match ip(source) {
            Some(it) if it.is_ipv4() == address.is_ipv4() => Some(it),
            _ => {
                let cause = format!("collector {name:?} has a source of another family");
                return Err((cause, "Use an address of the family of the collector."));
            }
        },
    };
    let is_tcp = message.transport() == v1::IpfixTransport::IpfixTcp;
    Ok(CollectorSettings { name, to: SocketAddr::new(address, port), source, is_tcp })
}

impl Settings {
    /// Those of a message of the contract.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn of(message: &v1::Ipfix) -> Result<Self, (String, &'static str)> {
        if message.collectors.len() > COLLECTORS {
            let cause = format!("{} collectors are more than 8", message.collectors.len());
            return Err((cause, "This limit is fixed: use fewer."));
        }
        let collectors: Vec<_> =
            message.collectors.iter().map(collector).collect::<Result<_, _>>()?;
        let message_size = usize::try_from(message.message_size).unwrap_or(usize::MAX);
        if !collectors.is_empty() && !(LEAST..=MOST).contains(&message_size) {
            let cause = format!("has messages of {message_size} bytes");
            return Err((cause, "Use 512 to 65,507 bytes."));
        }
        Ok(Self {
            collectors,
            active_s: message.active_timeout_s.max(1),
            idle_s: message.idle_timeout_s.max(1),
            template_s: message.template_interval_s.max(1),
            sampling: message.sampling.max(1),
            domain: message.observation_domain,
            message_size,
            is_biflow: message.biflow,
            flows: message.flows,
            nat_sessions: message.nat_sessions,
            nat_events: message.nat_events,
            denials: message.denials,
        })
    }

    /// As a message of the contract.
    pub fn message(&self) -> v1::Ipfix {
        let collector = |it: &CollectorSettings| v1::IpfixCollector {
            name: it.name.clone(),
            address: ip_bytes(it.to.ip()),
            port: it.to.port().into(),
            transport: match it.is_tcp {
                true => v1::IpfixTransport::IpfixTcp.into(),
                false => v1::IpfixTransport::IpfixUdp.into(),
            },
            source: it.source.map(ip_bytes).unwrap_or_default(),
        };
        v1::Ipfix {
            collectors: self.collectors.iter().map(collector).collect(),
            active_timeout_s: self.active_s,
            idle_timeout_s: self.idle_s,
            template_interval_s: self.template_s,
            sampling: self.sampling,
            observation_domain: self.domain,
            message_size: self.message_size as u32,
            biflow: self.is_biflow,
            flows: self.flows,
            nat_sessions: self.nat_sessions,
            nat_events: self.nat_events,
            denials: self.denials,
        }
    }
}

impl CollectorSettings {
    /// The address to bind to.
    pub(super) fn local(&self) -> SocketAddr {
        let any = match self.to.ip() {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED),
        };
        SocketAddr::new(self.source.unwrap_or(any), 0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::ipfix) fn collector() -> CollectorSettings {
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 4_739);
        CollectorSettings { name: "one".to_owned(), to, source: None, is_tcp: false }
    }

    #[test]
    fn a_message_and_its_settings_are_the_same() {
        let settings = Settings {
            collectors: vec![
                collector(),
                CollectorSettings {
                    name: "two".to_owned(),
                    to: "[2001:db8::1]:4740".parse().unwrap(),
                    source: Some("2001:db8::2".parse().unwrap()),
                    is_tcp: true,
                },
            ],
            active_s: 60,
            idle_s: 15,
            template_s: 600,
            sampling: 1,
            domain: 7,
            message_size: 1_400,
            is_biflow: true,
            flows: true,
            nat_sessions: false,
            nat_events: true,
            denials: true,
        };
        assert_eq!(Settings::of(&settings.message()), Ok(settings));
    }

    #[test]
    fn wrong_settings_are_refused() {
        let good =
            Settings { collectors: vec![collector()], message_size: 1_400, ..Default::default() };
        let good = good.message();
        assert!(Settings::of(&good).is_ok());
        let refuse = |change: fn(&mut v1::Ipfix)| {
            let mut message = good.clone();
            change(&mut message);
            Settings::of(&message).unwrap_err().0
        };
        assert!(refuse(|it| it.message_size = 100).contains("100 bytes"));
        assert!(refuse(|it| it.collectors[0].port = 0).contains("no address"));
        assert!(refuse(|it| it.collectors[0].source = vec![0; 16]).contains("another family"));
        assert!(
            refuse(|it| it.collectors = vec![it.collectors[0].clone(); 9]).contains("more than 8")
        );
        assert!(Settings::of(&v1::Ipfix::default()).is_ok());
    }
}
