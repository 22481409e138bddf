//! `stoa-login`: the portal, who may log in, and interfaces where hosts have to.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use super::management::{Radius, RadiusServer};

/// The portal, and who may log in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Login {
    pub portal: Portal,
    /// Seconds; 0: no limit.
    pub session_timeout: u32,
    /// Seconds; 0: no limit.
    pub idle_timeout: u32,
    /// MiB; 0: no limit.
    pub volume_limit: u32,
    /// 0: no limit.
    pub hosts_per_user: u32,
    pub user: Vec<LoginUser>,
    pub radius: LoginRadius,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Portal {
    /// Empty: there is none.
    pub address: Vec<IpAddr>,
    pub port: u16,
    /// The network namespace; `None`: that of Stoa.
    pub netns: Option<String>,
    pub url: Option<String>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub title: String,
}

impl Portal {
    /// Where hosts of a family find it, with a slash at the end; "": there is none.
    pub fn location(&self, is_ip4: bool) -> String {
        let mut addresses = self.address.iter();
        let address = addresses.find(|it| it.is_ipv4() == is_ip4).or(self.address.first());
        match (&self.url, address) {
            (Some(url), _) => url.clone(),
            (None, Some(it)) => format!("https://{}/", SocketAddr::new(*it, self.port)),
            (None, None) => String::new(),
        }
    }

    /// Where hosts find its API (RFC 8908); `None`: it has no URL. An address would be no name of a certificate
    /// (RFC 8910 section 2).
    pub fn api(&self) -> Option<String> {
        self.url.as_ref().map(|url| format!("{url}captive-portal/api"))
    }
}

#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoginUser {
    pub name: String,
    pub password_hash: String,
}

impl std::fmt::Debug for LoginUser {
    /// Without the hash, since it may be logged.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct LoginRadius {
    /// In order of preference.
    pub server: Vec<LoginServer>,
    /// Seconds until a request is retransmitted.
    pub timeout: u8,
    pub attempts: u8,
    /// `None`: the host name.
    pub nas_identifier: Option<String>,
    /// Seconds; 0: none.
    pub interim_interval: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoginServer {
    #[serde(flatten)]
    pub of: RadiusServer,
    /// 0: it gets no accounting.
    pub accounting_port: u16,
}

impl LoginRadius {
    /// The servers as those of the management, for authentication.
    pub fn servers(&self) -> Radius {
        Radius {
            server: self.server.iter().map(|it| it.of.clone()).collect(),
            timeout: self.timeout,
            attempts: self.attempts,
            nas_identifier: self.nas_identifier.clone(),
            ..Radius::default()
        }
    }

    /// The same for accounting.
    pub fn accounting(&self) -> Radius {
        let with = |it: &&LoginServer| it.accounting_port != 0;
        let server = |it: &LoginServer| RadiusServer { port: it.accounting_port, ..it.of.clone() };
        let server = self.server.iter().filter(with).map(server).collect();
        Radius { server, ..self.servers() }
    }
}

/// What hosts of an interface may do that have not logged in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InterfaceLogin {
    #[serde(default)]
    pub garden: Vec<String>,
    #[serde(default)]
    pub name_server: Vec<IpAddr>,
    pub redirect: bool,
    /// Packets of a second.
    pub host_query_rate: u32,
    /// The same.
    pub host_answer_rate: u32,
}
