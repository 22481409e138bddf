//! Limits of the control thread's tables: use, capacity and number of refusals.

use std::sync::Arc;

use stoa_api::acl::VALUES;
use stoa_api::v1;
use stoa_engine::INTERFACES;
use stoa_engine::quiescence::Quiescence;
use stoa_tables::flow_table::FlowError;

use super::desired::{Held, Workers};
use super::forwarder_state::ForwarderState;
use super::vrfs::VRFS;
use crate::flow::flows::{Flows, Sizes};
use crate::ip::policy::RULES;

/// Capacity of the tables, fixed when the forwarder gets its first state. Tables take memory as they fill, so
/// a high limit costs only address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// IPv4 prefixes of the default VRF.
    pub routes4: usize,
    /// IPv6 prefixes of the default VRF.
    pub routes6: usize,
    /// Prefixes of each other VRF, per family.
    pub vrf_routes: usize,
    /// Next hops: sets of paths, and neighbours.
    pub next_hops: usize,
    /// Adjacencies: neighbours and interfaces.
    pub adjacencies: usize,
    /// Neighbours.
    pub neighbors: usize,
    /// IPv4 flows.
    pub flows4: usize,
    /// IPv6 flows.
    pub flows6: usize,
    /// Translated flows.
    pub nat_flows: usize,
    /// Dynamic mappings of address translation.
    pub nat_mappings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            routes4: 2 << 20,
            routes6: 1 << 20,
            vrf_routes: 1 << 18,
            next_hops: 1 << 18,
            adjacencies: 1 << 18,
            neighbors: 1 << 14,
            flows4: 1 << 16,
            flows6: 1 << 16,
            nat_flows: 1 << 16,
            nat_mappings: 1 << 16,
        }
    }
}

impl Limits {
    /// These limits with the configured ones in their place; 0 keeps a limit.
    pub fn with(self, overrides: &LimitOverrides) -> Self {
        let or =
            |overrides: usize, default: usize| if overrides == 0 { default } else { overrides };
        Self {
            routes4: or(overrides.routes4, self.routes4),
            routes6: or(overrides.routes6, self.routes6),
            vrf_routes: or(overrides.vrf_routes, self.vrf_routes),
            next_hops: or(overrides.next_hops, self.next_hops),
            adjacencies: or(overrides.adjacencies, self.adjacencies),
            neighbors: or(overrides.neighbors, self.neighbors),
            flows4: or(overrides.flows4, self.flows4),
            flows6: or(overrides.flows6, self.flows6),
            nat_flows: or(overrides.nat_flows, self.nat_flows),
            nat_mappings: or(overrides.nat_mappings, self.nat_mappings),
        }
    }

    /// As a message of the contract.
    pub(super) fn message(&self) -> v1::Limits {
        v1::Limits {
            ip4_routes: self.routes4 as u32,
            ip6_routes: self.routes6 as u32,
            vrf_routes: self.vrf_routes as u32,
            next_hops: self.next_hops as u32,
            adjacencies: self.adjacencies as u32,
            neighbors: self.neighbors as u32,
            ip4_flows: self.flows4 as u32,
            ip6_flows: self.flows6 as u32,
            nat_flows: self.nat_flows as u32,
            nat_mappings: self.nat_mappings as u32,
        }
    }

    /// Empty flow tables of these sizes.
    pub(super) fn flows(
        &self,
        workers: &Workers,
        quiescence: &Arc<Quiescence>,
    ) -> Result<Flows, FlowError> {
        let sizes = Sizes {
            ip4: self.flows4 as u32,
            ip6: self.flows6 as u32,
            translated: self.nat_flows as u32,
            mappings: self.nat_mappings as u32,
        };
        Flows::new(sizes, workers.kernel.lookup(), workers.count, quiescence)
    }

    /// Checks that rules and routes fit; on an error, returns the path and the reason.
    pub(super) fn check(&self, held: &Held) -> Result<(), (String, TableFull)> {
        let desired = held.desired();
        let rules = desired.acl_rules.len();
        if rules > crate::acl::RULES {
            let reason = format!("{rules} rules are more than {}", crate::acl::RULES);
            return Err(("access lists".to_owned(), TableFull::of(Table::AclRules, reason)));
        }
        let values = held.references().acl_values();
        if values > VALUES {
            let reason = format!("{values} values of the sets of rules are more than {VALUES}");
            return Err(("access lists".to_owned(), TableFull::of(Table::AclRules, reason)));
        }
        let vrfs = desired.vrfs.len() + 1;
        if vrfs > VRFS {
            let reason = format!("{vrfs} VRFs are more than {VRFS}, the default one among them");
            return Err(("vrfs".to_owned(), TableFull::of(Table::Vrfs, reason)));
        }
        for (vrf, routes) in desired.all_routes() {
            for is_ip4 in [true, false] {
                let rules = desired.rules_of(vrf, is_ip4).len();
                if rules > RULES {
                    let reason = format!("{rules} rules of one family are more than {RULES}");
                    let vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
                    return Err((format!("rules{vrf}"), TableFull::of(Table::Rules, reason)));
                }
            }
            let ip4 = held.references().ip4_routes(vrf);
            let other = (self.vrf_routes, Table::VrfRoutes);
            let (four, six) = if vrf.is_empty() {
                ((self.routes4, Table::Ip4Routes), (self.routes6, Table::Ip6Routes))
            } else {
                (other, other)
            };
            for (routes, (limit, table)) in [(ip4, four), (routes.len() - ip4, six)] {
                if routes > limit {
                    let reason = format!("{routes} routes are more than the {limit} that fit");
                    let vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
                    return Err((format!("routes{vrf}"), TableFull::of(table, reason)));
                }
            }
        }
        Ok(())
    }
}

/// Configured limits; 0: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in `Limits`
pub struct LimitOverrides {
    pub routes4: usize,
    pub routes6: usize,
    pub vrf_routes: usize,
    pub next_hops: usize,
    pub adjacencies: usize,
    pub neighbors: usize,
    pub flows4: usize,
    pub flows6: usize,
    pub nat_flows: usize,
    pub nat_mappings: usize,
}

impl From<&v1::Limits> for LimitOverrides {
    fn from(overrides: &v1::Limits) -> Self {
        // The tables support no more: a higher configured limit is capped.
        let max = |overrides: u32| (overrides as usize).min(MAX_LIMIT);
        let flows = |overrides: u32| overrides.min(stoa_api::audit::FLOW_LIMIT_MAX) as usize;
        Self {
            routes4: max(overrides.ip4_routes),
            routes6: max(overrides.ip6_routes),
            vrf_routes: max(overrides.vrf_routes),
            next_hops: max(overrides.next_hops),
            adjacencies: max(overrides.adjacencies),
            neighbors: max(overrides.neighbors),
            flows4: flows(overrides.ip4_flows),
            flows6: flows(overrides.ip6_flows),
            nat_flows: flows(overrides.nat_flows),
            nat_mappings: max(overrides.nat_mappings),
        }
    }
}

/// The highest limit of a table without flows.
const MAX_LIMIT: usize = stoa_api::audit::LIMIT_MAX as usize;

/// A table that can be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// IPv4 prefixes of the default VRF.
    Ip4Routes,
    /// IPv6 prefixes of the default VRF.
    Ip6Routes,
    /// Prefixes of another VRF.
    VrfRoutes,
    /// Next hops.
    NextHops,
    /// Adjacencies.
    Adjacencies,
    /// Neighbours.
    Neighbors,
    /// Neighbours of one interface and family.
    InterfaceNeighbors,
    /// Interfaces and sub-interfaces.
    Interfaces,
    /// VRFs.
    Vrfs,
    /// Policy-routing rules of one VRF and family.
    Rules,
    /// Rules of all access lists.
    AclRules,
    /// The same, for each interface, direction and family whose lists differ from those of others.
    AclCompiled,
}

/// Number of tables.
const TABLES: usize = 12;

impl Table {
    /// Its name in `stoa show limits`, which is the name of its setting if it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip4Routes => "ipv4-routes",
            Self::Ip6Routes => "ipv6-routes",
            Self::VrfRoutes => "vrf-routes",
            Self::NextHops => "next-hops",
            Self::Adjacencies => "adjacencies",
            Self::Neighbors => "neighbors",
            Self::InterfaceNeighbors => "neighbors-fullest",
            Self::Interfaces => "interfaces",
            Self::Vrfs => "vrfs",
            Self::Rules => "rules-fullest",
            Self::AclRules => "acl-rules",
            Self::AclCompiled => "acl-rules-compiled",
        }
    }

    /// What an operator does when the limit is reached.
    pub fn fix(self) -> String {
        match self {
            Self::AclCompiled => {
                "This limit is fixed: attach the same lists in the same order to several interfaces, or use fewer rules and smaller sets."
                    .to_owned()
            }
            Self::Interfaces | Self::Vrfs | Self::Rules | Self::AclRules => {
                "This limit is fixed: use fewer, or distribute them over several routers.".to_owned()
            }
            Self::InterfaceNeighbors => {
                "Raise stoa-ip:neighbor-limit of the interface and family, or the limit of all: neighbors."
                    .to_owned()
            }
            _ => format!(
                "Configure fewer, or raise /stoa-system:system/limits/{} and restart Stoa.",
                self.name()
            ),
        }
    }
}

/// A table is full, or refused an entry for another reason.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct TableFull {
    /// The table.
    pub table: Table,
    text: String,
}

impl TableFull {
    pub(super) fn of(table: Table, error: impl std::fmt::Display) -> Self {
        Self { table, text: error.to_string() }
    }
}

/// Number of refusals by table, since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableFullCounts([u64; TABLES]);

impl TableFullCounts {
    /// Counts a full table and returns the error.
    pub(super) fn full(&mut self, table: Table, error: impl std::fmt::Display) -> TableFull {
        self.count(table);
        TableFull::of(table, error)
    }

    /// Counts a refusal.
    pub(super) fn count(&mut self, table: Table) {
        self.0[table as usize] += 1;
    }

    /// How often a table was full.
    pub fn of(&self, table: Table) -> u64 {
        self.0[table as usize]
    }
}

/// The state of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// Its name.
    pub name: String,
    /// Entries in use.
    pub used: u64,
    /// Capacity.
    pub limit: u64,
    /// Number of refusals since the start.
    pub refused: u64,
    /// What to do when it is reached.
    pub fix: String,
}

impl ForwarderState {
    /// Neighbours of the interface and family closest to its limit, and that limit.
    fn fullest_neighbors(&self) -> (usize, usize) {
        let occupancy = self.capabilities.neighbors.cache().occupancy();
        let default = occupancy.default_limit();
        let of_side = |((interface, is_ip4), used)| {
            let state = self.interface(interface);
            let family = state.map(|s| if is_ip4 { &s.desired.ip4 } else { &s.desired.ip6 });
            let own = family.map(|family| family.neighbor_limit as usize);
            (used, own.filter(|limit| *limit > 0).unwrap_or(default))
        };
        let link_families = occupancy.link_families().map(of_side);
        let is_fuller = |a: &(usize, usize), b: &(usize, usize)| (a.0 * b.1).cmp(&(b.0 * a.1));
        link_families.max_by(is_fuller).unwrap_or((0, default))
    }

    /// All tables of the control thread with their use. VRFs have a capacity each, and so have interfaces for
    /// neighbours: the fullest one is listed.
    pub fn limits(&self) -> Vec<LimitState> {
        let fib = self.fib.usage();
        let interfaces = self.index.len();
        let tables = [
            (Table::Ip4Routes, fib.routes4),
            (Table::Ip6Routes, fib.routes6),
            (Table::VrfRoutes, fib.vrf_routes),
            (Table::NextHops, fib.next_hops),
            (Table::Adjacencies, fib.adjacencies),
            (Table::Neighbors, (self.capabilities.neighbors.cache().len(), self.limits.neighbors)),
            (Table::Interfaces, (interfaces, INTERFACES)),
            (Table::Vrfs, (self.vrfs.len(), VRFS)),
            (Table::Rules, (self.capabilities.policy.fullest(), RULES)),
            (Table::AclRules, (self.capabilities.acl.rules(), crate::acl::RULES)),
            (Table::AclCompiled, (self.capabilities.acl.compiled(), crate::acl::COMPILED)),
        ];
        let table = |(table, (used, limit)): (Table, (usize, usize))| LimitState {
            name: table.name().to_owned(),
            used: used as u64,
            limit: limit as u64,
            refused: self.fib.table_full_counts.of(table),
            fix: table.fix(),
        };
        let mut limits: Vec<LimitState> = tables.into_iter().map(table).collect();
        let occupancy = self.capabilities.neighbors.cache().occupancy();
        let evicted = self.capabilities.neighbors.cache().evicted();
        let table = Table::InterfaceNeighbors;
        let refused = evicted.1 + self.fib.table_full_counts.of(table);
        let shares = [
            ("neighbors-unresolved", occupancy.unresolved(), evicted.0),
            (table.name(), self.fullest_neighbors(), refused),
        ];
        limits.extend(shares.map(|(name, (used, limit), refused)| LimitState {
            name: name.to_owned(),
            used: used as u64,
            limit: limit as u64,
            refused,
            fix: "No action is needed: unresolved neighbours are evicted first, oldest first, then stale ones.".to_owned(),
        }));
        limits
    }
}
