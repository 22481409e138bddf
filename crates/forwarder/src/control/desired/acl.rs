//! Rules of access lists of the contract, checked, and the lists of an interface.

mod interfaces;
mod rows;
mod values;

use stoa_api::v1;
use stoa_wire::protocol;

use super::change::{DesiredChange, add_once};
use super::{Prefix, ValidationErrors, flow_profile as profiles};
use crate::acl::{Action, COMPILED};
use crate::flow::alg::Alg;
use crate::flow::profiles::Profile;
use values::{ports, prefixes, protocols, range, small};

/// List and name of a rule.
pub type AclRuleKey = (String, String);

/// Which parts of packets a rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fragments {
    /// All packets.
    #[default]
    Any,
    /// Whole packets.
    None,
    /// First fragments.
    First,
    /// Other fragments.
    Later,
    /// All fragments.
    All,
}

/// A rule of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// The rule before it; "": it is the first.
    pub after: String,
    /// The names of the sets that its lists have been, for operators: they change nothing.
    pub sets: Option<v1::AclRuleSets>,
    /// What it does.
    pub rule: RuleOfList,
}

/// A rule without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOfList {
    /// 4 or 6; 0: both.
    pub family: u8,
    /// Source prefixes; empty: any.
    pub sources: Vec<Prefix>,
    /// Destination prefixes; empty: any.
    pub destinations: Vec<Prefix>,
    /// DSCP, at most 63.
    pub dscp: Option<u8>,
    /// Upper-layer protocols; empty: any.
    pub protocols: Vec<u8>,
    /// First and last source ports; empty: any.
    pub source_ports: Vec<(u16, u16)>,
    /// First and last destination ports; empty: any.
    pub destination_ports: Vec<(u16, u16)>,
    /// Type of ICMP.
    pub icmp_type: Option<u8>,
    /// Code of ICMP.
    pub icmp_code: Option<u8>,
    /// Flags of TCP: value and mask.
    pub tcp_flags: (u8, u8),
    /// Parts of packets.
    pub fragments: Fragments,
    /// Shortest and longest packet.
    pub length: Option<(u16, u16)>,
    /// What happens to packets that match.
    pub action: Action,
    /// Whether a packet that it accepts begins a flow.
    pub is_stateful: bool,
    /// How its flows are followed; `None`: by the defaults.
    pub flow_profile: Option<Profile>,
    /// The application level gateway of its flows.
    pub alg: Option<Alg>,
    /// Whether packets that match it are logged.
    pub is_logged: bool,
    /// Packets per second that it accepts, and those at once; `None`: all.
    pub rate_limit: Option<(u32, u32)>,
    /// Whether no packet matches it, whatever its conditions.
    pub matches_nothing: bool,
    /// The interface that has received the packet; `None`: any.
    pub ingress: Option<String>,
    /// The interface that sends it; `None`: any.
    pub egress: Option<String>,
    /// The VLAN of the receiving interface, 0 if it has none; `None`: any.
    pub vlan: Option<u16>,
}

impl RuleOfList {
    /// Whether it applies to packets of the family 4 or 6.
    pub fn is_of(&self, family: u8) -> bool {
        self.family == 0 || self.family == family
    }

    /// Whether it looks at the header of the upper layer, which later fragments do not have.
    pub fn reads_upper_header(&self) -> bool {
        let has_ports = !(self.source_ports.is_empty() && self.destination_ports.is_empty());
        has_ports || self.icmp_type.or(self.icmp_code).is_some() || self.tcp_flags.1 != 0
    }

    /// A rule that matches all packets.
    pub fn all(action: Action) -> Self {
        Self {
            family: 0,
            sources: Vec::new(),
            destinations: Vec::new(),
            dscp: None,
            protocols: Vec::new(),
            source_ports: Vec::new(),
            destination_ports: Vec::new(),
            icmp_type: None,
            icmp_code: None,
            tcp_flags: (0, 0),
            fragments: Fragments::Any,
            length: None,
            action,
            is_stateful: false,
            flow_profile: None,
            alg: None,
            is_logged: false,
            rate_limit: None,
            matches_nothing: false,
            ingress: None,
            egress: None,
            vlan: None,
        }
    }

    /// How many entries of a tree it has for a family: one for each way to combine a value of each list.
    pub fn entries(&self) -> usize {
        let lists = [
            self.sources.len(),
            self.destinations.len(),
            self.protocols.len(),
            self.source_ports.len(),
            self.destination_ports.len(),
        ];
        let product = lists.into_iter().fold(1_usize, |all, it| all.saturating_mul(it.max(1)));
        if self.matches_nothing { 0 } else { product }
    }

    /// How many values its lists have.
    pub fn values(&self) -> usize {
        let ports = self.source_ports.len() + self.destination_ports.len();
        self.sources.len() + self.destinations.len() + self.protocols.len() + ports
    }
}

/// The access lists of an interface, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclSets {
    /// Of received IPv4 packets.
    pub in4: Vec<String>,
    /// Of received IPv6 packets.
    pub in6: Vec<String>,
    /// Of IPv4 packets that it sends.
    pub out4: Vec<String>,
    /// Of IPv6 packets that it sends.
    pub out6: Vec<String>,
}

impl From<&v1::AclSets> for AclSets {
    fn from(sets: &v1::AclSets) -> Self {
        let v1::AclSets { in4, in6, out4, out6 } = sets.clone();
        Self { in4, in6, out4, out6 }
    }
}

fn path((acl, name): (&str, &str)) -> String {
    format!("rule {name:?} of access list {acl:?}")
}

impl DesiredChange {
    pub(super) fn add_acl_rules(&mut self, rules: &[v1::AclRule], errors: &mut ValidationErrors) {
        for rule in rules {
            let path = || path((&rule.acl, &rule.name));
            match checked(rule) {
                Ok(checked) => {
                    let key = (rule.acl.clone(), rule.name.clone());
                    let fix = "Send each rule once.";
                    add_once(&mut self.acl_rules, (key, Some(checked)), path, fix, errors);
                }
                Err((cause, fix)) => errors.add(path(), cause, fix),
            }
        }
    }

    pub(super) fn remove_acl_rules(
        &mut self,
        keys: &[v1::AclRuleKey],
        errors: &mut ValidationErrors,
    ) {
        for v1::AclRuleKey { acl, name } in keys {
            let object = ((acl.clone(), name.clone()), None);
            let fix = "Send each object once, or its removal.";
            add_once(&mut self.acl_rules, object, || path((acl, name)), fix, errors);
        }
    }
}

/// The cause of an error and its fix.
type Fault = (String, &'static str);

fn fault<T>(cause: impl Into<String>, fix: &'static str) -> Result<T, Fault> {
    Err((cause.into(), fix))
}

/// Checks a rule on its own.
fn checked(rule: &v1::AclRule) -> Result<AclRule, Fault> {
    if rule.acl.is_empty() || rule.name.is_empty() {
        return fault("has no name", "Set the names of the list and of the rule.");
    }
    if !matches!(rule.family, 0 | 4 | 6) {
        return fault("has an invalid family", "Use 4, 6, or 0 for both.");
    }
    if rule.family == 0 && !(rule.sources.is_empty() && rule.destinations.is_empty()) {
        return fault("has addresses without a family", "Set the family.");
    }
    let action = match v1::AclAction::try_from(rule.action) {
        Ok(v1::AclAction::AclAccept) => Action::Accept,
        Ok(v1::AclAction::AclDrop) => Action::Drop,
        Ok(v1::AclAction::AclReject) => Action::Reject,
        Err(_) => return fault("has an unknown action", "Use accept, drop or reject."),
    };
    let fragments = match v1::AclFragment::try_from(rule.fragment) {
        Ok(v1::AclFragment::AnyPacket) => Fragments::Any,
        Ok(v1::AclFragment::NoFragment) => Fragments::None,
        Ok(v1::AclFragment::FirstFragment) => Fragments::First,
        Ok(v1::AclFragment::LaterFragment) => Fragments::Later,
        Ok(v1::AclFragment::AnyFragment) => Fragments::All,
        Err(_) => return fault("has an unknown fragment state", "Use one of the contract."),
    };
    let tcp_flags = (small(Some(rule.tcp_flags), 255)?, small(Some(rule.tcp_flags_mask), 255)?);
    let tcp_flags = (tcp_flags.0.unwrap_or(0), tcp_flags.1.unwrap_or(0));
    if tcp_flags.0 & !tcp_flags.1 != 0 {
        return fault("has TCP flags outside of their mask", "Add them to the mask.");
    }
    let length = rule.length.as_ref().map(|it| (range(it), it));
    let length = match length {
        Some((None, it)) => {
            let cause = format!("has the lengths {} to {}", it.first, it.last);
            return fault(cause, "Use at most 65,535, the lower one first.");
        }
        Some((known, _)) => known,
        None => None,
    };
    let rule_of_list = RuleOfList {
        family: rule.family as u8,
        sources: prefixes(&rule.sources, rule.family)?,
        destinations: prefixes(&rule.destinations, rule.family)?,
        dscp: small(rule.dscp, 63)?,
        protocols: protocols(&rule.protocols)?,
        source_ports: ports(&rule.source_ports)?,
        destination_ports: ports(&rule.destination_ports)?,
        icmp_type: small(rule.icmp_type, 255)?,
        icmp_code: small(rule.icmp_code, 255)?,
        tcp_flags,
        fragments,
        length,
        action,
        is_stateful: rule.stateful,
        flow_profile: flow_profile(rule)?,
        alg: alg(rule)?,
        is_logged: rule.log,
        rate_limit: rate_limit(rule, action)?,
        matches_nothing: rule.matches_nothing,
        ingress: interfaces::named(&rule.ingress_interface),
        egress: interfaces::named(&rule.egress_interface),
        vlan: interfaces::vlan(rule.vlan_id)?,
    };
    if rule.stateful && action != Action::Accept {
        return fault("is stateful and does not accept", "Use the action accept.");
    }
    check_upper(&rule_of_list)?;
    let entries = rule_of_list.entries();
    if entries > COMPILED {
        let cause = format!("has {entries} combinations of its values, more than {COMPILED}");
        return fault(cause, "Use fewer prefixes, protocols or ranges of ports.");
    }
    let (after, sets) = (rule.after.clone(), rule.sets.clone());
    Ok(AclRule { after, sets, rule: rule_of_list })
}

/// The limit of what a rule accepts.
fn rate_limit(rule: &v1::AclRule, action: Action) -> Result<Option<(u32, u32)>, Fault> {
    let Some(limit) = rule.rate_limit else { return Ok(None) };
    if action != Action::Accept || limit.packets_per_second == 0 || limit.burst == 0 {
        return fault("has an invalid rate limit", "Use at least 1, and the action accept.");
    }
    Ok(Some((limit.packets_per_second, limit.burst)))
}

/// How the flows of a rule are followed.
fn alg(rule: &v1::AclRule) -> Result<Option<Alg>, Fault> {
    if rule.alg.is_empty() {
        return Ok(None);
    }
    if !rule.stateful {
        return fault("has an ALG without flows", "Make it stateful, or remove the ALG.");
    }
    match Alg::of_name(&rule.alg) {
        Some(alg) => Ok(Some(alg)),
        None => fault(format!("has the ALG {:?}", rule.alg), "Use ftp, tftp, pptp or sip."),
    }
}

fn flow_profile(rule: &v1::AclRule) -> Result<Option<Profile>, Fault> {
    let Some(profile) = &rule.flow_profile else { return Ok(None) };
    if !rule.stateful {
        return fault("has a flow profile and is not stateful", "Make it stateful.");
    }
    match profiles::checked(profile) {
        None => fault("has a flow profile without a timeout", "Set each timeout."),
        known => Ok(known),
    }
}

/// Checks that packets can have what a rule looks at in the header of the upper layer.
fn check_upper(rule: &RuleOfList) -> Result<(), Fault> {
    let has_ports = !rule.source_ports.is_empty() || !rule.destination_ports.is_empty();
    let has_type = rule.icmp_type.is_some() || rule.icmp_code.is_some();
    let has_flags = rule.tcp_flags.1 != 0;
    let have_ports = rule.protocols.iter().all(|it| protocol::has_ports(*it));
    if has_ports && (rule.protocols.is_empty() || !have_ports) {
        return fault("has ports without a protocol that has them", "Set the protocol.");
    }
    let icmp = if rule.family == 4 { protocol::ICMP4 } else { protocol::ICMP6 };
    if has_type && (rule.family == 0 || rule.protocols != [icmp]) {
        return fault("has an ICMP type without its family and protocol", "Set both.");
    }
    if has_flags && rule.protocols != [protocol::TCP] {
        return fault("has TCP flags without the protocol TCP", "Set the protocol.");
    }
    if rule.fragments == Fragments::Later && (has_ports || has_type || has_flags) {
        let cause = "looks at a header that later fragments do not have";
        return fault(cause, "Remove ports, types and flags, or match other fragments.");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
