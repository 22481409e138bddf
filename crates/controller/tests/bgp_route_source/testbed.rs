//! The table with a BGP route source, a fake forwarder, and two providers in their own namespaces.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bgp_speaker::{Identity, Paths, Speaker, announce, end_of_rib, withdraw};
use serde_json::json;
use stoa_api::{unix, v1};
use stoa_controller::apply::ForwarderConnection;
use stoa_controller::bgp_route_source::{self, Settings};
use stoa_controller::configuration::Configuration;
use stoa_controller::learned::{Learned, RouteSourceSummary, Session, Source};
use stoa_controller::route_sources::RouteSourceState;
use stoa_lab::{Namespace, bgp_speaker};

use crate::PATIENCE;
use crate::fake::{Fake, Record};

/// Groups of prefixes, 20.GROUP.0.0/24 onward: AS path length of each provider; 0: no path.
pub const GROUPS: [[u8; 2]; 4] = [[1, 2], [3, 1], [0, 1], [2, 2]];
/// Prefixes of each group.
pub const PER_GROUP: usize = 8;

/// Gateways of each prefix: best and backup.
pub type ForwarderRoutes = BTreeMap<String, (Vec<String>, Vec<String>)>;

/// Number of prefixes with two gateways, multipath or backup.
pub fn pairs(seen: &ForwarderRoutes) -> usize {
    seen.values().filter(|(paths, backup)| paths.len() + backup.len() == 2).count()
}

/// The testbed. The route source's task ends before its namespaces.
pub struct Testbed {
    route_source: tokio::task::JoinHandle<()>,
    sync_task: tokio::task::JoinHandle<()>,
    speakers: Vec<Speaker>,
    pub state: Arc<RouteSourceState>,
    learned: Learned,
    record: Record,
    _fake: Fake,
    _folder: tempfile::TempDir,
    /// Where the daemon runs.
    pub router: Namespace,
    _providers: [Namespace; 2],
}

fn configuration() -> Configuration {
    let port = |name: &str, number: u8| {
        json!({
            "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "ietf-ip:ipv4": { "address": [{ "ip": format!("10.{number}.0.1"), "prefix-length": 24 }] },
        })
    };
    let interfaces = [port("a", 1), port("b", 2)];
    let text = json!({ "ietf-interfaces:interfaces": { "interface": interfaces } });
    Configuration::parse(Path::new("test"), text.to_string()).unwrap()
}

/// A cable from the router to a provider: 10.N.0.1 at the router, 10.N.0.2 at the provider.
fn connect(router: &Namespace, number: u8) -> Namespace {
    let provider = Namespace::new(&format!("p{number}")).unwrap();
    let (near, far) = (format!("v{number}"), provider.name());
    router
        .ip(&["link", "add", &near, "type", "veth", "peer", "name", "up0", "netns", far])
        .unwrap();
    for (namespace, device, host) in [(router, near.as_str(), 1), (&provider, "up0", 2)] {
        let address = format!("10.{number}.0.{host}/24");
        namespace.ip(&["addr", "add", &address, "dev", device]).unwrap();
        namespace.ip(&["link", "set", "dev", device, "up"]).unwrap();
    }
    provider
}

impl Testbed {
    /// Creates a testbed with all or the best paths of the daemon, and that many multipath next hops.
    pub fn new(add_paths: bool, multipath: u8) -> Testbed {
        let router = Namespace::new("bgp").unwrap();
        router.ip(&["link", "set", "lo", "up"]).unwrap();
        let providers = [connect(&router, 1), connect(&router, 2)];
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("f.sock");
        let record = Record::default();
        let fake = Fake::start(&socket, &record);
        let connection =
            Arc::new(ForwarderConnection::new(unix::connect_lazily(&socket), configuration()));
        let for_sync = Arc::clone(&connection);
        let sync_task = tokio::spawn(async move {
            for_sync.keep_in_sync(true, |_| {}).await;
        });
        let learned = Learned::start(connection).unwrap();
        let stale_time = Duration::from_secs(120);
        let source = Source { name: "x".to_owned(), vrf: "".into(), preference: None, stale_time };
        let settings = Settings {
            netns: router.name().to_owned(),
            peer_users: ["bird", "frr"].map(str::to_owned).to_vec(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 1790,
            asn: 65_000,
            router_id: Ipv4Addr::LOCALHOST,
            add_paths,
            multipath,
        };
        let state = Arc::new(RouteSourceState::default());
        let task = bgp_route_source::run(learned.open(source), settings, Arc::clone(&state));
        let route_source = tokio::spawn(task);
        let speakers = (1..=2).zip(&providers).map(|(number, provider)| {
            let own = Ipv4Addr::new(10, number, 0, 2);
            let identity = Identity {
                own: own.into(),
                peer: Ipv4Addr::new(10, number, 0, 1).into(),
                asn: 65_100 + u32::from(number),
                router_id: own,
                hold_time: 90,
                graceful_restart: false,
            };
            Speaker::start(provider, identity).unwrap()
        });
        let speakers = speakers.collect();
        let (_fake, _folder, _providers) = (fake, folder, providers);
        Testbed {
            route_source,
            sync_task,
            speakers,
            state,
            learned,
            record,
            _fake,
            _folder,
            router,
            _providers,
        }
    }

    /// Both providers announce their routes.
    pub fn speak(&self) {
        for (index, speaker) in self.speakers.iter().enumerate() {
            let mut messages = Vec::new();
            for (group, times) in (0..).zip(GROUPS) {
                let number = u8::try_from(index + 1).unwrap();
                let next_hop = IpAddr::from([10, number, 0, 2]);
                let asn = 65_100 + u32::from(number);
                if times[index] > 0 {
                    let paths = Paths { asn, times: times[index], next_hop, per_attribute: 3 };
                    messages.extend(announce(&prefixes(group), &paths));
                }
            }
            messages.extend(end_of_rib(false));
            speaker.announce(messages.into());
        }
    }

    /// The first provider withdraws its routes.
    pub fn withdraw_first(&self) {
        let mut messages = Vec::new();
        (0..4).for_each(|group| messages.extend(withdraw(&prefixes(group))));
        self.speakers[0].replace(messages.into());
    }

    /// The routes that the forwarder holds.
    pub fn seen(&self) -> ForwarderRoutes {
        let held = self.record.learned.lock().unwrap();
        let gateways = |paths: Option<&v1::Paths>| {
            let paths = paths.map(|paths| paths.paths.as_slice()).unwrap_or_default();
            let mut texts: Vec<String> = paths
                .iter()
                .map(|path| {
                    path.to_string().split_whitespace().nth(1).unwrap_or_default().to_owned()
                })
                .collect();
            texts.sort();
            texts
        };
        let route = |((_, _, address, length), hop): (&crate::fake::learned::Prefix, &u32)| {
            let hop = held.hops.get(hop)?;
            let best = match &hop.action {
                Some(v1::learned_hop::Action::Paths(paths)) => Some(paths),
                _ => None,
            };
            let address = Ipv4Addr::from(u32::try_from(*address).ok()?);
            let paths = (gateways(best), gateways(hop.backup.as_ref()));
            Some((format!("{address}/{length}"), paths))
        };
        held.routes.iter().filter_map(route).collect()
    }

    /// Waits until the forwarder's routes satisfy the condition.
    pub async fn wait_for(&self, what: &str, is_so: impl Fn(&ForwarderRoutes) -> bool) {
        self.wait_until(what, || {
            let seen = self.seen();
            if is_so(&seen) { Ok(()) } else { Err(format!("{seen:#?}")) }
        })
        .await;
    }

    pub async fn wait_until(&self, what: &str, condition: impl Fn() -> Result<(), String>) {
        let end = Instant::now() + PATIENCE;
        while let Err(seen) = condition() {
            assert!(
                Instant::now() < end,
                "{what}: not in time: {seen} {:?}",
                self.state.statistics()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the route source accepts connections.
    pub async fn wait_until_listening(&self) {
        self.wait_until("the route source listens", || {
            let reason = self.state.statistics().reason;
            if reason == "the daemon has not connected yet" { Ok(()) } else { Err(reason) }
        })
        .await;
    }

    /// The only route source, from the table's point of view.
    pub async fn summary(&self) -> RouteSourceSummary {
        self.learned.route_sources().await.remove(0)
    }

    /// Waits for this state of the session.
    pub async fn wait_session(&self, expected: Session) {
        let end = Instant::now() + PATIENCE;
        loop {
            let route_sources = self.learned.route_sources().await;
            if route_sources.iter().any(|route_source| route_source.session == expected) {
                return;
            }
            let statistics = self.state.statistics();
            assert!(
                Instant::now() < end,
                "{expected:?}: not in time: {route_sources:?} {statistics:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether table and forwarder hold the same routes, once the forwarder was asked how many it holds.
    pub async fn audit(&self) -> bool {
        self.learned.expect(vec!["x".to_owned()]).await;
        let end = Instant::now() + PATIENCE;
        loop {
            let audit = self.learned.audit().await;
            if Instant::now() > end || audit.tables.iter().all(|table| table.is_compared) {
                return audit.is_equal();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.route_source.abort();
        self.sync_task.abort();
    }
}

fn prefixes(group: u8) -> Vec<(u32, u8)> {
    let first = u32::from_be_bytes([20, group, 0, 0]);
    (0..PER_GROUP as u32).map(|number| (first + (number << 8), 24)).collect()
}
