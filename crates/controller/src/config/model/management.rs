//! `stoa-management:management` and `ietf-netconf-acm:nacm`.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Management {
    pub https: Https,
    pub limits: Limits,
    pub radius: Radius,
    pub user: Vec<User>,
    /// From `ietf-netconf-acm:nacm`.
    #[serde(skip)]
    pub access: Access,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Https {
    pub enabled: bool,
    /// Empty: the loopback addresses of both families.
    pub address: Vec<IpAddr>,
    pub port: u16,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Limits {
    pub requests_per_second: u32,
    pub body_bytes: u32,
    pub connections: u16,
    pub sessions: u16,
    pub subscriptions: u16,
}

/// RADIUS servers for users without an entry in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Radius {
    /// In order of preference.
    pub server: Vec<RadiusServer>,
    /// Seconds until a request is retransmitted.
    pub timeout: u8,
    pub attempts: u8,
    /// `None`: the host name.
    pub nas_identifier: Option<String>,
    pub group_attribute: GroupAttribute,
    /// Whether Service-Type Administrative makes an administrator.
    pub administrators: bool,
}

#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RadiusServer {
    pub name: String,
    pub address: IpAddr,
    pub port: u16,
    pub shared_secret: String,
}

impl std::fmt::Debug for RadiusServer {
    /// Without the secret, since it may be logged.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} at {} port {}", self.name, self.address, self.port)
    }
}

/// The RADIUS attribute with the groups of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupAttribute {
    #[default]
    ManagementPolicyId,
    FilterId,
    Class,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct User {
    pub name: String,
    #[serde(default)]
    pub password_hash: Option<String>,
    #[serde(default)]
    pub group: Vec<String>,
    #[serde(default)]
    pub admin: bool,
}

/// RFC 8341.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Access {
    pub enable_nacm: bool,
    pub read_default: Action,
    pub write_default: Action,
    pub exec_default: Action,
    pub enable_external_groups: bool,
    pub groups: Groups,
    pub rule_list: Vec<RuleList>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    Permit,
    #[default]
    Deny,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Groups {
    pub group: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Group {
    pub name: String,
    #[serde(default)]
    pub user_name: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RuleList {
    pub name: String,
    #[serde(default)]
    pub group: Vec<String>,
    #[serde(default)]
    pub rule: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    pub name: String,
    pub module_name: String,
    #[serde(default)]
    pub rpc_name: Option<String>,
    #[serde(default)]
    pub notification_name: Option<String>,
    #[serde(default)]
    pub path: Option<String>,
    /// `*`, or names separated by spaces.
    pub access_operations: String,
    pub action: Action,
}
