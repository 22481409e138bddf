//! The configuration of the log.

use std::net::SocketAddr;

use stoa_api::v1;
use stoa_api::v1::syslog::Destination;
use stoa_yang::error::ValidationErrors;

use crate::capability::{Capability, Settings, Translated};
use crate::config::model::{Receiver, Syslog};

/// The capability.
pub(crate) struct Logging;

impl Capability for Logging {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        _: &mut ValidationErrors,
    ) {
        let logging = &settings.model.logging;
        translated.desired.logging = Some(v1::Logging {
            level: logging.level.clone(),
            format: logging.format.clone(),
            syslog: logging.syslog.iter().map(receiver).collect(),
        });
    }
}

/// The facilities of the module with their numbers (RFC 5424, section 6.2.1).
const FACILITIES: [(&str, u32); 10] = [
    ("user", 1),
    ("daemon", 3),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

fn receiver(syslog: &Syslog) -> v1::Syslog {
    let address = |it: &Receiver| SocketAddr::new(it.address, it.port).to_string();
    let destination = match (&syslog.udp, &syslog.tcp) {
        (Some(udp), _) => Destination::Udp(address(udp)),
        (None, Some(tcp)) => Destination::Tcp(address(tcp)),
        (None, None) => Destination::Unix(syslog.unix_socket.clone()),
    };
    let known = FACILITIES.iter().find(|(name, _)| *name == syslog.facility);
    v1::Syslog {
        name: syslog.name.clone(),
        level: syslog.level.clone(),
        facility: known.map_or(3, |(_, number)| *number),
        destination: Some(destination),
    }
}
