//! The partner of flows and logins: the ends of its connections, and their state in words.

use std::net::SocketAddr;

use crate::text::ip;
use crate::v1;

/// The ends of a connection to the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The own end.
    pub local: SocketAddr,
    /// The end of the partner.
    pub partner: SocketAddr,
}

fn end(address: &[u8], port: u32) -> Option<SocketAddr> {
    let port = u16::try_from(port).ok().filter(|it| *it > 0)?;
    Some(SocketAddr::new(ip(address)?, port))
}

impl Ends {
    /// Those of the connection of flows.
    ///
    /// # Errors
    /// Which of them is none.
    pub fn of(sync: &v1::FlowSync) -> Result<Self, &'static str> {
        let local = end(&sync.local_address, sync.local_port).ok_or("local end")?;
        let partner = end(&sync.partner_address, sync.partner_port).ok_or("partner")?;
        Ok(Self { local, partner })
    }

    /// Those of the connection of logins: the ports behind; `None`: there is none behind.
    pub fn of_logins(self) -> Option<Self> {
        let behind = |it: SocketAddr| Some(SocketAddr::new(it.ip(), it.port().checked_add(1)?));
        Some(Self { local: behind(self.local)?, partner: behind(self.partner)? })
    }

    /// Whether this end waits for the connection of the other one: the end with the lower address does.
    pub fn listens(&self) -> bool {
        self.local.ip() < self.partner.ip()
    }
}

impl v1::FlowSyncStatus {
    /// The name in YANG, and in what is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlowSyncConnecting => "connecting",
            Self::FlowSyncListening => "listening",
            Self::FlowSyncConnected => "connected",
            Self::FlowSyncOff => "off",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(local_port: u32, partner_port: u32) -> v1::FlowSync {
        v1::FlowSync {
            local_address: vec![192, 0, 2, 1],
            local_port,
            partner_address: vec![192, 0, 2, 2],
            partner_port,
            ..v1::FlowSync::default()
        }
    }

    #[test]
    fn logins_use_the_ports_behind_those_of_flows() {
        let ends = Ends::of(&message(7_001, 7_002)).unwrap();
        let logins = ends.of_logins().unwrap();
        assert_eq!((logins.local.port(), logins.partner.port()), (7_002, 7_003));
        assert!(ends.listens() && logins.listens());
        let other = Ends { local: ends.partner, partner: ends.local };
        assert!(!other.listens());
        assert_eq!(Ends::of(&message(65_535, 1)).unwrap().of_logins(), None);
        assert_eq!(Ends::of(&message(0, 1)), Err("local end"));
        assert_eq!(Ends::of(&message(1, 70_000)), Err("partner"));
    }
}
