//! Policy routing: stoa-policy.

use serde::Deserialize;
use stoa_api::v1;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Policy {
    pub rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    pub vrf: String,
    pub address_family: AddressFamily,
    pub priority: u32,
    #[serde(rename = "match", default)]
    pub of: RuleMatch,
    pub table: Option<String>,
    #[serde(default)]
    pub ignore_default: bool,
    pub refuse: Option<Refuse>,
    pub goto: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressFamily {
    Ipv4,
    Ipv6,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct RuleMatch {
    pub source_prefix: Option<String>,
    pub destination_prefix: Option<String>,
    #[serde(flatten)]
    pub of: v1::Rule,
    pub source_port: PortRange,
    pub destination_port: PortRange,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct PortRange {
    pub lower_port: Option<u32>,
    pub upper_port: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refuse {
    Blackhole,
    Unreachable,
    Prohibit,
}
