//! The flows of packets: so many in turn, or a new one with each packet.

use std::fmt;
use std::str::FromStr;

use super::targets::SPREAD;
use super::workload::{FLOWS_MAX, Ip, Visits, Workload};

/// The most flows that are followed.
pub(super) const TRACKED_MAX: u64 = stoa_api::audit::FLOW_LIMIT_MAX as u64;
/// Sources of packets of which each one is new: a power of two, so that they repeat with the same destination only
/// after as many packets as there are pairs.
const SOURCES: u32 = 1 << 20;
/// The fewest destinations of these: all pairs together are more than the flows that are followed.
const LEAST: u32 = (TRACKED_MAX / SOURCES as u64) as u32 * 2 - 1;
/// Flows of one source address.
const FLOWS_OF_SOURCE: u32 = 1 << 14;
/// Seconds without a packet after which a flow of one packet ends.
pub(super) const NEW_TIMEOUT_S: u32 = 2;

/// How many flows packets belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flows {
    /// So many, in turn: source ports and addresses, for each destination.
    Some(u32),
    /// Each packet begins one.
    New,
}

impl FromStr for Flows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "new" => Ok(Self::New),
            count => match count.parse() {
                Ok(count @ 1..=FLOWS_MAX) => Ok(Self::Some(count)),
                _ => Err(format!("give a number from 1 to {FLOWS_MAX}, or new")),
            },
        }
    }
}

impl fmt::Display for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Some(1) => f.write_str("1 flow"),
            Self::Some(count) => write!(f, "{count} flows"),
            Self::New => f.write_str("a new flow with each packet"),
        }
    }
}

impl Flows {
    /// Whether each packet begins one.
    pub const fn are_new(self) -> bool {
        matches!(self, Self::New)
    }

    /// The sources of packets: ports and addresses.
    pub const fn sources(self) -> u32 {
        match self {
            Self::Some(count) => count,
            Self::New => SOURCES,
        }
    }
}

impl Workload {
    /// Whether packets belong to flows that are followed. SYNs that get a cookie begin none.
    pub(super) fn has_flows(&self) -> bool {
        (self.is_stateful || self.has_nat44 || self.has_nat64) && !self.has_syn_cookies
    }

    /// The most flows that packets can belong to at a time.
    pub(super) fn tracked_flows(&self) -> u64 {
        let destinations = match self.visits {
            Visits::Some(count) => count.into(),
            Visits::Random | Visits::Zipf => SPREAD as u64,
        };
        match self.flows {
            Flows::Some(count) => u64::from(count) * destinations,
            Flows::New => TRACKED_MAX,
        }
    }

    /// The same packets without rules, translation and export.
    pub(super) fn plain(&self) -> Self {
        let plain = Self { acl: None, is_stateful: false, has_zones: false, ..self.clone() };
        let plain = Self { has_nat44: false, has_nat64: false, has_answers: false, ..plain };
        let plain = Self { is_stateless: false, rule_rate: 0, ..plain };
        Self { is_exported: false, has_syn_cookies: false, ..plain }
    }

    /// Whether packets meet no rules, translation and export.
    pub(super) fn is_plain(&self) -> bool {
        self.acl.is_none() && !self.has_nat44 && !self.has_nat64
    }

    /// Rejects SYNs that exclude the rest of the workload.
    fn check_syns(&self) -> Result<(), String> {
        if self.has_syn_cookies && !(self.is_stateful && self.has_zones) {
            return Err("zones answer SYNs that a stateful rule accepts: add --acl acl:600 --stateful --zones"
                .to_owned());
        }
        let has_others = self.families() != [Ip::V4] || self.tunnels > 0 || self.flows.are_new();
        if self.has_syn_cookies && has_others {
            return Err("SYNs are packets of IPv4 without tunnels, and begin no flows: leave --family, --mix, \
                        --tunnels and --flows new out"
                .to_owned());
        }
        Ok(())
    }

    /// Rejects flows that exclude the rest of the workload.
    pub(super) fn check_flows(&self) -> Result<(), String> {
        if self.has_nat44 && (self.families() != [Ip::V4] || self.tunnels > 0) {
            return Err(
                "NAT44 translates IPv4 packets, without tunnels: use --family ip4".to_owned()
            );
        }
        self.check_syns()?;
        let is_crossed = self.has_nat44 || self.acl.is_some() || self.has_random_sources();
        if self.has_nat64 && (self.families() != [Ip::V4] || self.tunnels > 0 || is_crossed) {
            return Err(
                "NAT64 sends IPv6 packets to IPv4 routes: use --family ip4, without --nat44, --acl, --tunnels and \
                 random sources"
                    .to_owned(),
            );
        }
        let is_one =
            Visits::Some(1) == self.visits && self.ports == 1 && self.vlans == 0 && self.vrfs == 0;
        let is_plain = is_one && self.mix.is_none() && !self.is_tagged && self.acl.is_none();
        let is_translated = self.has_nat44 || self.has_nat64;
        if self.has_answers && !(is_translated && is_plain && self.workers == 1) {
            return Err(
                "answers come to one host by translation: add --nat44 or --nat64, and leave other traffic out"
                    .to_owned(),
            );
        }
        if self.is_exported && !self.has_flows() {
            return Err("there are no flows to export: add --stateful or --nat44".to_owned());
        }
        if self.flows.are_new() {
            // Flows of NAT44 alone live for five minutes, and fill the table.
            if !self.is_stateful {
                return Err(
                    "rules begin flows and say when they end: add --acl acl:600 --stateful"
                        .to_owned(),
                );
            }
            if matches!(self.visits, Visits::Some(count) if count < LEAST) {
                return Err(format!(
                    "packets to {} destinations would come back to flows that are there: give {LEAST} or more, or leave \
                     --destinations out",
                    self.visits
                ));
            }
        } else if self.has_flows() && self.tracked_flows() > TRACKED_MAX {
            return Err(format!(
                "{} for each of {} destinations: at most {TRACKED_MAX} flows are followed here; give fewer --flows or \
                 --destinations",
                self.flows, self.visits
            ));
        }
        if self.has_random_sources() && self.flows.sources() > FLOWS_OF_SOURCE {
            return Err(format!(
                "{} need several addresses for each source: give at most {FLOWS_OF_SOURCE} with random sources",
                self.flows
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::workload::tests::workload;

    #[test]
    fn flows_are_a_number_or_new() {
        let read = |text: &str| text.parse::<Flows>();
        assert_eq!(
            ["1", "16777216", "new"].map(read),
            [Ok(Flows::Some(1)), Ok(Flows::Some(1 << 24)), Ok(Flows::New),]
        );
        for wrong in ["0", "16777217", "New", "", "all"] {
            assert!(read(wrong).unwrap_err().contains("1 to 16777216, or new"), "{wrong}");
        }
        let shown = [Flows::Some(1), Flows::Some(7), Flows::New].map(|flows| flows.to_string());
        assert_eq!(shown, ["1 flow", "7 flows", "a new flow with each packet"]);
    }

    #[test]
    fn new_flows_need_rules_that_end_them_and_many_destinations() {
        let refused = |change: &dyn Fn(&mut Workload)| {
            let mut workload = workload();
            (workload.flows, workload.visits) = (Flows::New, Visits::Some(LEAST));
            change(&mut workload);
            workload.check_flows().err().unwrap_or_default()
        };
        let rules = |it: &mut Workload| (it.is_stateful, it.acl) = (true, "acl:9".parse().ok());
        let with = |change: &dyn Fn(&mut Workload)| {
            refused(&|it| {
                rules(it);
                change(it);
            })
        };
        assert!(refused(&|it| it.has_nat44 = true).contains("--stateful"));
        assert_eq!(with(&|it| it.has_nat44 = true), "");
        assert_eq!(with(&|it| it.visits = Visits::Random), "");
        assert!(with(&|it| it.visits = Visits::Some(LEAST - 1)).contains("give 31 or more"));
        assert!(with(&|it| it.random_sources = true).contains("with random sources"));
        let few = |it: &mut Workload| (it.flows, it.has_syn_cookies) = (Flows::Some(1), true);
        assert!(refused(&few).contains("--zones"));
        assert!(with(&few).contains("--zones"));
        let zones = |it: &mut Workload| it.has_zones = true;
        let both = |it: &mut Workload| {
            few(it);
            zones(it);
        };
        assert_eq!(with(&both), "");
        let six = |it: &mut Workload| {
            both(it);
            it.ip = Ip::V6;
        };
        assert!(with(&six).contains("IPv4"));
        let mut workload = workload();
        rules(&mut workload);
        (workload.has_zones, workload.is_exported) = (true, true);
        let plain = workload.plain();
        assert!(
            !plain.has_flows() && plain.acl.is_none() && !plain.has_zones && !plain.is_exported
        );
    }
}
