//! The workload and its limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use stoa_engine::{INTERFACES, VECTOR};
use stoa_forwarder::acl;
use stoa_forwarder::control::VRFS;
use stoa_forwarder::kernel::Kernel;

use super::BenchError;
use super::feature::Feature;
use super::flows::Flows;
use super::layout::{Layout, SIDE_MAX};
use super::mix::Mix;
use super::tunnels::{self, Direction, TUNNELS_MAX};
use crate::classify::Rules;
use crate::prefixes::Source;

/// The most routes of a table without a file.
pub const ROUTES_MAX: u32 = 1 << 20;
/// The most destinations.
pub const VISITS_MAX: u32 = 1 << 24;
/// The most neighbours.
pub const NEXT_HOPS_MAX: u32 = 1 << 13;
/// The most flows.
pub const FLOWS_MAX: u32 = 1 << 24;
/// The most route changes per second.
pub const UPDATES_MAX: u32 = 10_000_000;
/// The most changes of rules per second.
const RULE_UPDATES_MAX: u32 = 1000;
/// The most ports that receive, and as many that send.
pub const PORTS_MAX: u16 = 64;
/// The most sub-interfaces of a port.
pub const VLANS_MAX: u32 = 65_536;
/// The most VRFs beside the default one.
pub const VRFS_MAX: u16 = VRFS as u16 - 1;
/// The greatest VLAN ID.
const VLAN_MAX: u32 = 4094;
/// The shortest measurement.
const SHORTEST: Duration = Duration::from_millis(200);

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The destinations of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visits {
    /// This many addresses in turn, each in its own prefix while there are enough.
    Some(u32),
    /// An address in each prefix, at least 2^20 addresses, in random order.
    Random,
    /// 2^20 addresses or one per prefix, whichever is more; prefixes by Zipf's law.
    Zipf,
}

impl FromStr for Visits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "one" => Ok(Self::Some(1)),
            "random" => Ok(Self::Random),
            "zipf" => Ok(Self::Zipf),
            count => match count.parse() {
                Ok(count @ 1..=VISITS_MAX) => Ok(Self::Some(count)),
                _ => Err(format!("give one, random, zipf, or a number from 1 to {VISITS_MAX}")),
            },
        }
    }
}

impl fmt::Display for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Some(1) => f.write_str("one"),
            Self::Some(count) => write!(f, "{count}"),
            Self::Random => f.write_str("random"),
            Self::Zipf => f.write_str("zipf"),
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Address family; a mix overrides it.
    pub ip: Ip,
    /// Routes in the table when there is no file, 1 to 1,048,576.
    pub routes: u32,
    /// Tables to load in place of `routes`.
    pub prefixes: Vec<Source>,
    /// The destinations of packets.
    pub visits: Visits,
    /// Next hops of the routes in turn, in each VRF; 1 to 8,192 in all. Each sending port has one
    /// at least.
    pub next_hops: u32,
    /// Ports that receive, and as many that send, 1 to 64.
    pub ports: u16,
    /// Packets that a port hands over at once, 1 to 256; 0: as many as a vector holds.
    pub burst: u16,
    /// Sub-interfaces of each port, in random order; 0: none.
    pub vlans: u32,
    /// Whether sub-interfaces have two tags.
    pub is_qinq: bool,
    /// VRFs that the receiving interfaces are distributed over, each with all routes; 0: none.
    pub vrfs: u16,
    /// GRE tunnels in random order; 0: packets take none.
    pub tunnels: u32,
    /// Which way packets take the tunnels.
    pub direction: Direction,
    /// Whether sources are drawn from half of the table, which is routed to the receiving
    /// interfaces; uRPF implies it.
    pub random_sources: bool,
    /// Features of the receiving interfaces.
    pub features: Vec<Feature>,
    /// Features of an interface without traffic.
    pub features_elsewhere: Vec<Feature>,
    /// Rules of the access lists of the receiving interfaces, at most [`acl::RULES`] in both families together; all
    /// accept.
    pub acl: Option<Rules>,
    /// Whether these rules are stateful, so that packets belong to flows: as many as [`Workload::flows`] for each
    /// destination.
    pub is_stateful: bool,
    /// Whether a pair of zones has the lists, in place of the receiving interfaces.
    pub has_zones: bool,
    /// Whether packets are TCP SYNs from random sources, which SYN cookies of the zone of the sending interfaces
    /// answer.
    pub has_syn_cookies: bool,
    /// Whether the sources of packets are translated at the sending interfaces: as many flows as with stateful rules.
    pub has_nat44: bool,
    /// Whether hosts have IPv6 and reach the destinations, which have IPv4, by NAT64: as many flows.
    pub has_nat64: bool,
    /// With [`Workload::has_nat64`]: hosts have mappings without state (SIIT) in its place.
    pub is_stateless: bool,
    /// Whether packets come from outside, and translation turns them back to a host inside.
    pub has_answers: bool,
    /// Whether flows are exported by IPFIX, to a collector at which nobody listens.
    pub is_exported: bool,
    /// Whether received and sent frames have a VLAN tag.
    pub is_tagged: bool,
    /// A mix of frame sizes in place of `frame`.
    pub mix: Option<Mix>,
    /// Flows: source ports and addresses.
    pub flows: Flows,
    /// Route changes per second during the measurement; 0: none.
    pub update_rate: u32,
    /// Changes of rules per second during the measurement, at most 1,000; 0: none.
    pub rule_rate: u32,
    /// Bytes of a frame, FCS included (RFC 2544).
    pub frame: u16,
    /// Workers.
    pub workers: usize,
    /// Duration of the measurement.
    pub duration: Duration,
    /// The SIMD kernel.
    pub kernel: Kernel,
    /// CPUs for the workers; empty: no pinning.
    pub cpus: Vec<usize>,
    /// Whether another interface is traced and captured during the measurement.
    pub is_watched: bool,
}

impl Ip {
    /// The shortest frame, FCS included, that fits the headers, a tag and the payload.
    fn shortest(self) -> u16 {
        match self {
            Self::V4 => 64,
            Self::V6 => 78,
        }
    }
}

impl Workload {
    /// Rejects values that are out of range.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let shortest = if self.has_nat64 { Ip::V6 } else { self.ip }.shortest();
        let ranges: [(&str, u32, u32, u32); 13] = [
            ("routes", self.routes, 1, ROUTES_MAX),
            ("next hops", self.next_hops, 1, NEXT_HOPS_MAX),
            ("ports", self.ports.into(), 1, PORTS_MAX.into()),
            ("packets of a burst", self.burst.into(), 0, VECTOR as u32),
            ("VLANs", self.vlans, 0, VLANS_MAX),
            ("VRFs", self.vrfs.into(), 0, VRFS_MAX.into()),
            ("tunnels", self.tunnels, 0, TUNNELS_MAX),
            ("flows", self.flows.sources(), 1, FLOWS_MAX),
            ("route changes per second", self.update_rate, 0, UPDATES_MAX),
            ("changes of rules per second", self.rule_rate, 0, RULE_UPDATES_MAX),
            ("bytes of a frame", self.frame.into(), shortest.into(), 1518),
            ("workers", self.workers as u32, 1, 16),
            ("seconds", self.duration.as_secs_f64().ceil() as u32, 1, 3600),
        ];
        for (what, given, least, most) in ranges {
            if !(least..=most).contains(&given) {
                return Err(BenchError::Range(format!("{given} {what}: give {least} to {most}")));
            }
        }
        if self.duration < SHORTEST {
            return Err(BenchError::Range("give 1 to 3600 seconds".to_owned()));
        }
        let checked = self.check_layout().and_then(|()| self.check_features());
        checked.and_then(|()| tunnels::check(self)).map_err(BenchError::Range)
    }

    /// Rejects more interfaces and next hops than fit.
    fn check_layout(&self) -> Result<(), String> {
        let layout = Layout::new(self);
        let Layout { ports, each, .. } = layout;
        if !self.is_qinq && self.vlans > VLAN_MAX {
            return Err(format!(
                "{} VLANs: there are {VLAN_MAX} VLAN IDs; add --qinq for two tags",
                self.vlans
            ));
        }
        let next_hops = layout.next_hops * layout.tables();
        if next_hops > NEXT_HOPS_MAX as usize {
            return Err(format!(
                "{next_hops} next hops in all VRFs: give at most {}",
                NEXT_HOPS_MAX as usize / layout.tables()
            ));
        }
        if layout.interfaces() < layout.tables() {
            return Err(format!(
                "{} receiving interfaces for {} VRFs: give --vlans {} or more",
                layout.interfaces(),
                self.vrfs,
                layout.tables().div_ceil(ports)
            ));
        }
        let elsewhere = usize::from(!self.features_elsewhere.is_empty());
        let total = layout.total() + elsewhere;
        let fits = |each: &usize| {
            let layout = layout.with_each(*each);
            layout.interfaces() <= SIDE_MAX && layout.total() + elsewhere <= INTERFACES
        };
        if !fits(&each) {
            let most = (layout.tables().div_ceil(ports)..each).rev().find(fits).unwrap_or(1);
            return Err(format!(
                "{each} sub-interfaces on each of {ports} receiving ports make {total} interfaces with \
                 those of the next hops: this build has {INTERFACES}; give --vlans {most} or fewer"
            ));
        }
        let left = INTERFACES.saturating_sub(total);
        if self.tunnels as usize > left {
            return Err(format!(
                "{} tunnels: this build has {INTERFACES} interfaces; give --tunnels {left} or fewer",
                self.tunnels
            ));
        }
        if self.vrfs > 0 && self.update_rate > 0 {
            return Err("--update-rate changes the default VRF: leave --vrfs out".to_owned());
        }
        Ok(())
    }

    /// Rejects features that exclude each other or the rest of the workload.
    fn check_features(&self) -> Result<(), String> {
        for features in [&self.features, &self.features_elsewhere] {
            if features.iter().filter(|feature| feature.is_urpf()).count() > 1 {
                return Err(
                    "an interface has one mode of uRPF: give urpf-strict or urpf-loose".to_owned()
                );
            }
        }
        let most = acl::RULES / self.families().len().max(1);
        if let Some(set) = self.acl.as_ref().filter(|rules| rules.count() > most) {
            return Err(format!(
                "{set}: access lists have at most {} rules; give {most} or fewer",
                acl::RULES
            ));
        }
        if self.rule_rate > 0 && self.acl.is_none() {
            return Err("--rule-rate changes rules of a list: add --acl acl:600".to_owned());
        }
        if self.is_stateful && self.acl.is_none() {
            return Err("stateful rules are rules of a list: add --acl acl:600".to_owned());
        }
        if self.has_zones && (self.acl.is_none() || self.tunnels > 0) {
            return Err("zones have a list and no tunnels: add --acl acl:600".to_owned());
        }
        self.check_flows()
    }

    /// Whether sources are drawn from half of the table.
    pub(super) fn has_random_sources(&self) -> bool {
        let is_checked = self.features.iter().any(|feature| feature.is_urpf());
        self.random_sources || self.has_syn_cookies || is_checked
    }

    /// The address families of the packets.
    pub(super) fn families(&self) -> Vec<Ip> {
        self.mix.map_or(vec![self.ip], Mix::families)
    }

    /// Mean frame size in bytes, FCS included.
    pub(super) fn mean_frame(&self) -> f64 {
        self.mix.map_or(self.frame.into(), Mix::mean)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One route, one port, smallest frames.
    pub(in crate::forward) fn workload() -> Workload {
        Workload {
            ip: Ip::V4,
            routes: 1,
            prefixes: Vec::new(),
            visits: Visits::Some(1),
            next_hops: 1,
            ports: 1,
            burst: 0,
            vlans: 0,
            is_qinq: false,
            vrfs: 0,
            tunnels: 0,
            direction: Direction::Encapsulate,
            random_sources: false,
            features: Vec::new(),
            features_elsewhere: Vec::new(),
            acl: None,
            has_zones: false,
            has_syn_cookies: false,
            has_nat44: false,
            has_nat64: false,
            is_stateless: false,
            has_answers: false,
            is_stateful: false,
            is_exported: false,
            is_tagged: false,
            frame: 64,
            mix: None,
            flows: Flows::Some(1),
            update_rate: 0,
            rule_rate: 0,
            workers: 1,
            duration: Duration::from_secs(1),
            kernel: Kernel::Scalar,
            cpus: Vec::new(),
            is_watched: false,
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_next_step() {
        let refused = |change: &dyn Fn(&mut Workload)| {
            let mut workload = workload();
            change(&mut workload);
            workload.check().err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(&|it| (it.ports, it.vlans, it.next_hops) = (4, 64, 64)), "");
        assert!(refused(&|it| it.ports = 65).contains("give 1 to 64"));
        assert!(refused(&|it| it.burst = 257).contains("give 0 to 256"));
        assert!(refused(&|it| it.vlans = 4095).contains("add --qinq"));
        assert!(refused(&|it| (it.vlans, it.vrfs) = (3, 4)).contains("give --vlans 4"));
        assert!(refused(&|it| (it.vrfs, it.next_hops) = (16, 513)).contains("give at most 512"));
        assert!(refused(&|it| (it.vrfs, it.update_rate) = (2, 1)).contains("leave --vrfs out"));
        assert!(refused(&|it| it.vrfs = 256).contains("give 0 to 255"));
        let both = vec![Feature::UrpfStrict, Feature::UrpfLoose];
        assert!(refused(&|it| it.features = both.clone()).contains("one mode"));
        let rules = |kind: &str| kind.parse().ok();
        assert_eq!(refused(&|it| it.acl = rules("acl:131072")), "");
        assert!(refused(&|it| it.acl = rules("acl:131073")).contains("give 131072 or fewer"));
        let strict = vec![Feature::UrpfStrict];
        let many =
            |it: &mut Workload| (it.features, it.flows) = (strict.clone(), Flows::Some(16_385));
        assert!(refused(&many).contains("at most 16384"));
        // One of the other interfaces for each port, and one for the next hop.
        let most = (INTERFACES - 3).min(SIDE_MAX) as u32;
        assert_eq!(refused(&|it| (it.vlans, it.is_qinq) = (most, true)), "");
        let error = refused(&|it| (it.vlans, it.is_qinq) = (most + 1, true));
        assert!(error.contains(&format!("give --vlans {most} or fewer")), "{error}");
        assert!(refused(&|it| (it.ports, it.vlans) = (64, 4094)).contains("or fewer"));
    }
}
