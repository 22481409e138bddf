//! `stoa-logging:logging`.

use std::net::IpAddr;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Logging {
    pub level: String,
    pub format: String,
    pub syslog: Vec<Syslog>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Syslog {
    pub name: String,
    pub level: String,
    pub facility: String,
    #[serde(default)]
    pub unix_socket: String,
    pub udp: Option<Receiver>,
    pub tcp: Option<Receiver>,
}

#[derive(Debug, Deserialize)]
pub struct Receiver {
    pub address: IpAddr,
    pub port: u16,
}
