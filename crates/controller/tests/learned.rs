//! Learned routes from route sources to a fake forwarder: routes arrive, a restarted forwarder or controller
//! recovers, differences are repaired, refusals are reported.

mod fake;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{Fake, Record};
use stoa_api::{unix, v1};
use stoa_controller::apply::ForwarderConnection;
use stoa_controller::configuration::Configuration;
use stoa_controller::learned::{Event, Learned, NextHopPath, RouteSource, Source, Target, Update};

const PATIENCE: Duration = Duration::from_secs(30);

/// A controller's connection and table, without configured route sources.
struct Controller {
    connection: Arc<ForwarderConnection>,
    learned: Learned,
    reconciler: tokio::task::JoinHandle<()>,
}

impl Controller {
    fn start(socket: &Path) -> Controller {
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let connection = Arc::new(ForwarderConnection::new(unix::connect_lazily(socket), empty));
        let for_sync = Arc::clone(&connection);
        let reconciler = tokio::spawn(async move {
            for_sync.keep_in_sync(true, |_| {}).await;
        });
        Controller {
            learned: Learned::start(Arc::clone(&connection)).unwrap(),
            connection,
            reconciler,
        }
    }

    fn route_source(&self, name: &str) -> RouteSource {
        let stale_time = Duration::from_secs(60);
        let source = Source { name: name.to_owned(), vrf: "".into(), preference: None, stale_time };
        self.learned.open(source)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.reconciler.abort();
    }
}

/// `count` /24 networks from 20.0.0.0 onward via one gateway.
fn many(count: u32, gateway: &str) -> Event {
    let path =
        NextHopPath { interface: Some("a".into()), gateway: gateway.parse().ok(), weight: 1 };
    Event::Update(Update {
        protocol: v1::Protocol::Bgp,
        target: Some(Target::Paths([path].into(), [].into())),
        ip4: (0..count).map(|number| (0x1400_0000 + (number << 8), 24)).collect(),
        ip6: (0..count / 10)
            .map(|number| (0x2001_0db8_u128 << 96 | u128::from(number) << 64, 64))
            .collect(),
    })
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn route_count(record: &Record) -> usize {
    record.learned.lock().unwrap().routes.len()
}

fn socket() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.sock");
    (folder, path)
}

#[tokio::test]
async fn routes_survive_a_restart_of_either_process() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let fake = Fake::start(&socket, &record);
    let controller = Controller::start(&socket);
    let route_source = controller.route_source("frr");
    route_source.send(vec![Event::Up, many(50_000, "10.0.0.9"), Event::Complete]).await;
    controller.learned.expect(vec!["frr".to_owned()]).await;
    until("routes arrive", || route_count(&record) == 55_000).await;
    until("the transfer is complete", || record.learned.lock().unwrap().completed == 1).await;

    // A restarted forwarder holds nothing.
    drop(fake);
    *record.learned.lock().unwrap() = fake::learned::LearnedState::default();
    let _fake = Fake::start(&socket, &record);
    until("routes arrive again", || route_count(&record) == 55_000).await;
    until("the transfer is complete again", || record.learned.lock().unwrap().completed == 1).await;

    // A restarted controller knows nothing: the forwarder's routes are retained until the route source is
    // complete.
    drop((controller, route_source));
    let controller = Controller::start(&socket);
    controller.learned.expect(vec!["frr".to_owned()]).await;
    until("a new stream", || record.learned.lock().unwrap().begun == 2).await;
    let route_source = controller.route_source("frr");
    route_source.send(vec![Event::Up, many(40_000, "10.0.0.8")]).await;
    until("routes announced again are fresh", || {
        record.learned.lock().unwrap().stale.len() == 11_000
    })
    .await;
    // Before that, an audit has nothing to compare and removes nothing.
    assert!(controller.learned.audit().await.tables.iter().all(|table| !table.is_compared));
    assert_eq!(route_count(&record), 55_000);
    route_source.send(vec![Event::Complete]).await;
    until("stale routes are removed", || route_count(&record) == 44_000).await;
    let audit = controller.learned.audit().await;
    assert!(audit.is_equal(), "{audit:?}");
    assert_eq!(audit.tables.iter().map(|table| table.held).sum::<u64>(), 44_000);
}

/// A controller whose route source has announced so many IPv4 routes, and a tenth of them of IPv6.
async fn announced(socket: &Path, record: &Record, count: u32) -> (Controller, RouteSource) {
    let controller = Controller::start(socket);
    let route_source = controller.route_source("frr");
    controller.learned.expect(vec!["frr".to_owned()]).await;
    route_source.send(vec![Event::Up, many(count, "10.0.0.9"), Event::Complete]).await;
    let all = (count + count / 10) as usize;
    until("routes arrive", || route_count(record) == all).await;
    (controller, route_source)
}

#[tokio::test]
async fn an_audit_finds_and_repairs_differences() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let (controller, _route_source) = announced(&socket, &record, 20_000).await;
    assert!(controller.learned.audit().await.is_equal());
    {
        let mut learned = record.learned.lock().unwrap();
        let some: Vec<_> = learned.routes.keys().step_by(500).cloned().collect();
        let (lost, altered) = some.split_at(some.len() / 2);
        for prefix in lost {
            learned.routes.remove(prefix);
        }
        for prefix in altered {
            learned.routes.insert(prefix.clone(), 4_711);
        }
        learned.routes.insert((String::new(), 4, 0x0a00_0000, 8), 1);
    }
    let audit = controller.learned.audit().await;
    assert!(!audit.is_equal());
    assert_eq!(audit.tables.iter().map(|table| table.different).sum::<u64>(), 45);
    let named = audit.tables.iter().map(|table| table.named.len());
    assert!(named.max() == Some(5), "the first of each table: {audit:?}");
    let audit = controller.learned.audit().await;
    assert!(audit.is_equal(), "{audit:?}");
    assert_eq!(route_count(&record), 22_000);
    // The metrics report it.
    let text = stoa_controller::metrics::render(&controller.connection).await;
    for line in [
        "stoa_route_audits_total 3",
        "stoa_route_audit_different_routes_total 45",
        "stoa_route_audit_repaired_routes_total 45",
        "stoa_route_audit_equal 1.0",
        r#"stoa_route_source_routes{route_source="frr",vrf="default",family="ipv4"} 20000.0"#,
        r#"stoa_route_source_session_state{route_source="frr",session="complete"} 1.0"#,
        "stoa_learned_complete 1.0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn an_audit_names_what_is_wrong_with_each_route() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let (controller, _route_source) = announced(&socket, &record, 1_000).await;
    let ip6 = u128::from_be_bytes([0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    {
        let routes = &mut record.learned.lock().unwrap().routes;
        let key = |family, address, length| (String::new(), family, address, length);
        routes.remove(&key(4, 0x1400_0000, 24)).unwrap();
        *routes.get_mut(&key(4, 0x1400_0100, 24)).unwrap() = 4_711;
        routes.insert(key(4, 0xcb00_7100, 24), 1);
        routes.insert(key(6, ip6, 48), 1);
    }
    let audit = controller.learned.audit().await;
    let all = audit.tables.iter().flat_map(|table| table.named.clone());
    let named: std::collections::BTreeSet<String> = all.collect();
    let expected = [
        "20.0.0.0/24 (missing)",
        "20.0.1.0/24 (leads elsewhere)",
        "2001:db8:9::/48 (unexpected)",
        "203.0.113.0/24 (unexpected)",
    ];
    assert_eq!(named, expected.map(str::to_owned).into());
    assert_eq!(route_count(&record), 1_100);
    assert!(controller.learned.audit().await.is_equal());
}

#[tokio::test]
async fn refused_routes_are_reported_and_the_rest_works() {
    let (_folder, socket) = socket();
    let record = Record::default();
    record.learned.lock().unwrap().limit = Some(1_000);
    let _fake = Fake::start(&socket, &record);
    let controller = Controller::start(&socket);
    let route_source = controller.route_source("frr");
    controller.learned.expect(vec!["frr".to_owned()]).await;
    route_source.send(vec![Event::Up, many(1_500, "10.0.0.9"), Event::Complete]).await;
    let end = Instant::now() + PATIENCE;
    while controller.learned.work().await.refused < 650 {
        assert!(Instant::now() < end, "refusals are counted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(route_count(&record), 1_000);
    let report = controller.learned.report().await;
    assert_eq!(report.reason, "no room");
    assert_eq!(report.tables.iter().map(|table| table.different).sum::<u64>(), 650);
    // Routes refused again do not count as repaired.
    let text = stoa_controller::metrics::render(&controller.connection).await;
    for line in ["stoa_route_audit_repaired_routes_total 0", "stoa_route_audit_equal 0.0"] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    // They are accepted when the limit is raised.
    record.learned.lock().unwrap().limit = None;
    controller.learned.audit().await;
    assert!(controller.learned.audit().await.is_equal());
    assert_eq!(route_count(&record), 1_650);
}

#[tokio::test]
async fn the_last_state_of_a_flapping_peer_arrives() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let controller = Controller::start(&socket);
    let (peer, calm) = (controller.route_source("peer"), controller.route_source("calm"));
    controller.learned.expect(vec!["peer".to_owned(), "calm".to_owned()]).await;
    let path = NextHopPath { interface: Some("b".into()), gateway: None, weight: 1 };
    let one = Update {
        protocol: v1::Protocol::Ospf,
        target: Some(Target::Paths([path].into(), [].into())),
        ip4: vec![(0x0b00_0000, 8)],
        ip6: vec![],
    };
    calm.send(vec![Event::Up, Event::Update(one.clone()), Event::Complete]).await;
    // As fast as possible: up, everything, another gateway for everything, down and up again.
    for round in 0..40_u32 {
        let gateway = format!("10.0.0.{}", 2 + round);
        let event = if round % 2 == 0 { Event::Down } else { Event::Complete };
        peer.send(vec![Event::Up, many(5_000, &gateway), event]).await;
    }
    // The events of the stable peer are processed meanwhile.
    let other = Update { ip4: vec![(0x0c00_0000, 8)], ..one };
    calm.send(vec![Event::Update(other)]).await;
    peer.send(vec![Event::Up, many(1_000, "10.0.0.1"), Event::Complete]).await;
    until("the last state", || route_count(&record) == 1_100 + 2).await;
    assert!(controller.learned.audit().await.is_equal());
    assert_eq!(controller.learned.work().await.received, 40 * 5_500 + 1_100 + 2);
}

/// A daemon has marked the end of its announcements.
const END: Event = Event::EndOfRib { ip4: true, ip6: true };

#[tokio::test]
async fn stale_routes_are_retained_until_as_many_are_announced() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let controller = Controller::start(&socket);
    let route_source = controller.route_source("zebra");
    controller.learned.expect(vec!["zebra".to_owned()]).await;
    route_source.send(vec![Event::Up, many(50_000, "10.0.0.9"), END]).await;
    until("the transfer is complete", || record.learned.lock().unwrap().completed == 1).await;
    assert_eq!(route_count(&record), 55_000);

    // A restarted zebra announces its first routes and goes quiet while its daemons wait for their
    // neighbours.
    drop((controller, route_source));
    let controller = Controller::start(&socket);
    controller.learned.expect(vec!["zebra".to_owned()]).await;
    let before = record.learned.lock().unwrap().counted;
    let route_source = controller.route_source("zebra");
    route_source.send(vec![Event::Up, many(1_000, "10.0.0.8"), END]).await;
    until("the counts are queried twice", || record.learned.lock().unwrap().counted >= before + 2)
        .await;
    assert_eq!((route_count(&record), record.learned.lock().unwrap().completed), (55_000, 1));
    // The daemons announce their routes.
    route_source.send(vec![many(49_000, "10.0.0.8")]).await;
    until("stale routes are removed", || route_count(&record) == 53_900).await;
    assert_eq!(record.learned.lock().unwrap().completed, 2);
    assert!(controller.learned.audit().await.is_equal());
}
