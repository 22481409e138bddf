//! Audits the forwarder: compares the routes that win here with the routes it holds, by counts and digests,
//! and repairs differences.
//!
//! Both sides add up digests of their routes (`stoa_api::digest`) while nothing changes. Slices with
//! different digests are listed route by route and sent again.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stoa_api::{digest, v1};
use stoa_delta::Digests;

use super::Learned;
use super::prefixes::Ip6Words;
use super::run::Runner;
use super::statistics::AuditCounters;
use super::table::{Family, Table};
use crate::config::routes::VrfName;

/// Attempts to compare both sides while routes change.
const MAX_ATTEMPTS: u32 = 50;
/// Pause between attempts.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Interval of the automatic audit.
const INTERVAL: Duration = Duration::from_secs(60);
/// Slices whose routes are listed at a time.
const SLICES_AT_ONCE: usize = 16;
/// Different routes of a table that are named.
const NAMED: usize = 5;

/// The result for one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedTable {
    /// The VRF; "" is the default one.
    pub vrf: String,
    /// 4 or 6.
    pub family: u32,
    /// Routes that win here.
    pub desired: u64,
    /// Learned routes that the forwarder holds.
    pub held: u64,
    /// Routes that differed: missing, leading elsewhere, or not wanted.
    pub different: u64,
    /// The first of them, each with what was wrong.
    pub named: Vec<String>,
    /// Whether the comparison succeeded; it fails while routes keep changing.
    pub is_compared: bool,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// The results by table.
    pub tables: Vec<AuditedTable>,
}

impl Audit {
    /// Whether the forwarder holds exactly the winning routes of every table.
    pub fn is_equal(&self) -> bool {
        self.tables.iter().all(|table| table.is_compared && table.different == 0)
    }
}

impl AuditCounters {
    /// Counts an audit; the forwarder refused `refused` of the routes sent again.
    pub(super) fn note(&mut self, audit: &Audit, refused: u64) {
        let different = audit.tables.iter().map(|table| table.different).sum::<u64>();
        self.runs += 1;
        self.different += different;
        self.repaired += different.saturating_sub(refused);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_unix_s = now.as_secs().max(1);
        self.was_equal = audit.is_equal();
    }
}

/// The winning routes at one moment, once the forwarder has acknowledged everything.
struct Snapshot {
    sums: Digests,
    changes: u64,
}

/// Routes as both sides list them: from prefix to hop.
type ListedRoutes = HashMap<(u128, u8), u32>;

/// Routes that differ.
#[derive(Debug, Default)]
struct Different {
    /// Their number.
    routes: u64,
    /// The first of them, each with what is wrong.
    named: Vec<String>,
}

impl Different {
    fn add(&mut self, more: Self) {
        self.routes += more.routes;
        self.named.extend(more.named);
        self.named.truncate(NAMED);
    }
}

impl Learned {
    /// Audits everything periodically, forever.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.audit().await;
        }
    }

    /// Audits all tables that have learned routes on either side, and repairs differences.
    pub async fn audit(&self) -> Audit {
        let mut vrfs: BTreeSet<VrfName> =
            self.ask(|runner| runner.table.vrfs()).await.unwrap_or_default();
        vrfs.insert(VrfName::default());
        self.connection.with_configuration(|configuration| {
            let of = configuration.into_iter().flat_map(|it| &it.desired.vrfs);
            vrfs.extend(of.map(|vrf| VrfName::from(vrf.name.as_str())));
        });
        let refused = self.work().await.refused;
        let mut audit = Audit::default();
        for vrf in vrfs {
            for family in [4, 6] {
                let table = self.audit_table(&vrf, family).await;
                if table.different > 0 {
                    let AuditedTable { vrf, family, different, named, .. } = &table;
                    let some = named.join("; ");
                    tracing::error!(
                        vrf,
                        family,
                        different,
                        "learned routes differed in the forwarder; sent them again: {some}"
                    );
                }
                audit.tables.push(table);
            }
        }
        if audit.tables.iter().any(|table| table.different > 0) {
            // The forwarder accepts or refuses the routes that were sent again before they count as repaired.
            self.wait_until_drained().await;
        }
        let ended = audit.clone();
        self.ask(move |runner| {
            let refused = runner.work.refused.saturating_sub(refused);
            runner.audits.note(&ended, refused);
        })
        .await;
        audit
    }

    async fn audit_table(&self, vrf: &VrfName, family: u32) -> AuditedTable {
        let mut table = AuditedTable { vrf: vrf.to_string(), family, ..AuditedTable::default() };
        // Of all attempts: what one has repaired, the next does not find again.
        let mut different = Different::default();
        for _ in 0..MAX_ATTEMPTS {
            // Before the resync is complete, stale routes of the previous controller are neither desired nor
            // to be removed.
            if !self.ask(|runner| runner.is_completed()).await.unwrap_or(false) {
                return table;
            }
            if let Some((here, there)) = self.compare(vrf, family).await {
                (table.desired, table.held) = (here.sums.rows, there.rows);
                table.is_compared = true;
                for slices in here.sums.differing(&there).chunks(SLICES_AT_ONCE) {
                    match self.fix(vrf, family, slices).await {
                        Some(more) => different.add(more),
                        None => table.is_compared = false,
                    }
                }
                (table.different, table.named) = (different.routes, different.named.clone());
                if table.is_compared {
                    return table;
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        table
    }

    /// Both sides while nothing changed; `None` when routes changed or the forwarder did not answer.
    async fn compare(&self, vrf: &VrfName, family: u32) -> Option<(Snapshot, Digests)> {
        let name = vrf.clone();
        let here = self.ask(move |runner| snapshot(runner, &name, family)).await??;
        let there = self.held(vrf, family, &[]).await?;
        let there = Digests::new(there.routes, there.digests)?;
        self.is_unchanged(here.changes).await.then_some((here, there))
    }

    async fn is_unchanged(&self, changes: u64) -> bool {
        let is_same =
            move |runner: &mut Runner| runner.table.changes == changes && runner.is_synced();
        self.ask(is_same).await.unwrap_or(false)
    }

    /// The number of changes of winners, once the forwarder has acknowledged everything.
    async fn wait_until_drained(&self) -> Option<u64> {
        for _ in 0..MAX_ATTEMPTS {
            let changes = self.ask(|runner| runner.is_synced().then_some(runner.table.changes));
            if let Some(changes) = changes.await? {
                return Some(changes);
            }
            tokio::time::sleep(RETRY_DELAY / 10).await;
        }
        None
    }

    /// What the forwarder holds; `None` while it changes.
    async fn held(&self, vrf: &str, family: u32, slices: &[u32]) -> Option<v1::AuditRoutesReply> {
        let request =
            v1::AuditRoutesRequest { vrf: vrf.to_owned(), family, slices: slices.to_vec() };
        let answer = self.connection.client().audit_routes(request).await.ok()?.into_inner();
        (!answer.is_changing).then_some(answer)
    }

    /// Compares these slices route by route and sends the differences again. Returns them, or `None` when routes
    /// changed meanwhile.
    async fn fix(&self, vrf: &VrfName, family: u32, slices: &[u32]) -> Option<Different> {
        let changes = self.wait_until_drained().await?;
        let held = list_routes(&self.held(vrf, family, slices).await?.runs, family);
        let (vrf, slices) = (vrf.clone(), slices.to_vec());
        self.ask(move |runner| {
            if runner.table.changes != changes || !runner.is_synced() {
                return None;
            }
            let table = &mut runner.table;
            Some(match family {
                4 => table.fix::<u32>(&vrf, &slices, held),
                _ => table.fix::<Ip6Words>(&vrf, &slices, held),
            })
        })
        .await?
    }
}

fn list_routes(runs: &[v1::RouteRun], family: u32) -> ListedRoutes {
    let mut list_routes = ListedRoutes::new();
    for run in runs {
        let (bytes, width) = if family == 4 { (&run.ip4, 5) } else { (&run.ip6, 17) };
        for packed in bytes.chunks_exact(width) {
            let (address, length) = packed.split_at(width - 1);
            let wide = address.iter().fold(0, |wide, byte| wide << 8 | u128::from(*byte));
            list_routes.insert((wide, length[0]), run.hop);
        }
    }
    list_routes
}

/// The winning routes, if the forwarder has acknowledged all of them.
fn snapshot(runner: &mut Runner, vrf: &VrfName, family: u32) -> Option<Snapshot> {
    if !runner.is_synced() {
        return None;
    }
    let sums = match family {
        4 => runner.table.sums::<u32>(vrf),
        _ => runner.table.sums::<Ip6Words>(vrf),
    };
    Some(Snapshot { sums, changes: runner.table.changes })
}

impl Table {
    fn vrfs(&self) -> BTreeSet<VrfName> {
        self.sources.iter().flatten().map(|held| held.source.vrf.clone()).collect()
    }

    /// All winners of a VRF.
    fn winners<'a, A: Family>(
        &'a self,
        vrf: &'a VrfName,
    ) -> impl Iterator<Item = (u128, u8, u32)> + 'a {
        let here = self.sources.iter().enumerate();
        let here = here.filter(|(_, held)| held.as_ref().is_some_and(|it| it.source.vrf == *vrf));
        let winners = here.flat_map(|(at, _)| self.winners_of::<A>(at));
        winners.map(|item| (item.address.widen(), item.length, item.group))
    }

    fn sums<A: Family>(&self, vrf: &VrfName) -> Digests {
        let mut sums = Digests::default();
        for (address, length, hop) in self.winners::<A>(vrf) {
            sums.add(digest::slice(address, length), digest::route(address, length, hop));
        }
        sums
    }

    /// Sends what differs from the held routes of these slices.
    fn fix<A: Family>(
        &mut self,
        vrf: &VrfName,
        slices: &[u32],
        mut held: ListedRoutes,
    ) -> Different {
        let is_meant =
            |address: u128, length: u8| slices.contains(&(digest::slice(address, length) as u32));
        let winners = self.winners::<A>(vrf).filter(|it| is_meant(it.0, it.1));
        let mut wrong = Vec::new();
        for (address, length, hop) in winners {
            match held.remove(&(address, length)) {
                Some(here) if here == hop => {}
                Some(_) => wrong.push((address, length, hop, "leads elsewhere")),
                None => wrong.push((address, length, hop, "missing")),
            }
        }
        let unexpected =
            held.into_keys().map(|(address, length)| (address, length, 0, "unexpected"));
        wrong.extend(unexpected);
        let hops: BTreeSet<u32> = wrong.iter().map(|it| it.2).filter(|hop| *hop != 0).collect();
        for (id, group) in hops.iter().filter_map(|id| Some((*id, self.groups.get(*id)?))) {
            self.messages.hop(group.hop(id));
        }
        for (address, length, group, _) in &wrong {
            self.messages.route(vrf, A::narrow(*address), *length, *group);
        }
        let name = |(address, length, _, what): &(u128, u8, u32, &str)| {
            let address: IpAddr = match A::BITS {
                32 => Ipv4Addr::from_bits(*address as u32).into(),
                _ => Ipv6Addr::from_bits(*address).into(),
            };
            format!("{address}/{length} ({what})")
        };
        let named = wrong.iter().take(NAMED).map(name).collect();
        Different { routes: wrong.len() as u64, named }
    }
}
