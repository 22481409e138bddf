//! Learned routes from route sources to a forwarder that is fake: everything arrives, a forwarder or a controller that begins anew
//! comes to hold the same, what differs is found and fixed, what does not fit is said.

mod fake;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::{Fake, Record};
use stoa_api::{unix, v1};
use stoa_controller::apply::ForwarderConnection;
use stoa_controller::configuration::Configuration;
use stoa_controller::learned::{Event, Learned, RouteSource, Source, Target, Update, NextHopPath};

const PATIENCE: Duration = Duration::from_secs(30);

/// A controller's line and table, without route sources of the configuration.
struct Half {
    connection: Arc<ForwarderConnection>,
    learned: Learned,
    keeper: tokio::task::JoinHandle<()>,
}

impl Half {
    fn start(socket: &Path) -> Half {
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let connection = Arc::new(ForwarderConnection::new(unix::connect_lazily(socket), empty));
        let for_sync = Arc::clone(&connection);
        let keeper = tokio::spawn(async move {
            for_sync.keep_in_sync(true, |_| {}).await;
        });
        Half { learned: Learned::start(Arc::clone(&connection)).unwrap(), connection, keeper }
    }

    fn route_source(&self, name: &str) -> RouteSource {
        let stale_time = Duration::from_secs(60);
        let source = Source { name: name.to_owned(), vrf: "".into(), preference: None, stale_time };
        self.learned.open(source)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// `count` networks of 24 bits from 20.0.0.0 on, by one gateway.
fn many(count: u32, gateway: &str) -> Event {
    let path = NextHopPath { interface: Some("a".into()), gateway: gateway.parse().ok(), weight: 1 };
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

fn held(record: &Record) -> usize {
    record.learned.lock().unwrap().routes.len()
}

fn socket() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.sock");
    (folder, path)
}

#[tokio::test]
async fn routes_arrive_and_outlive_either_half() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let fake = Fake::start(&socket, &record);
    let half = Half::start(&socket);
    let route_source = half.route_source("frr");
    route_source.send(vec![Event::Up, many(50_000, "10.0.0.9"), Event::Complete]).await;
    half.learned.expect(vec!["frr".to_owned()]).await;
    until("routes arrive", || held(&record) == 55_000).await;
    until("all is said", || record.learned.lock().unwrap().completed == 1).await;

    // A forwarder that begins anew holds nothing.
    drop(fake);
    *record.learned.lock().unwrap() = fake::learned::Held::default();
    let _fake = Fake::start(&socket, &record);
    until("routes arrive again", || held(&record) == 55_000).await;
    until("all is said again", || record.learned.lock().unwrap().completed == 1).await;

    // A controller that begins anew knows nothing: what the forwarder holds stays until the route source has said all.
    drop((half, route_source));
    let half = Half::start(&socket);
    half.learned.expect(vec!["frr".to_owned()]).await;
    until("a new stream", || record.learned.lock().unwrap().begun == 2).await;
    let route_source = half.route_source("frr");
    route_source.send(vec![Event::Up, many(40_000, "10.0.0.8")]).await;
    until("what is said again is fresh", || record.learned.lock().unwrap().stale.len() == 11_000)
        .await;
    // An audit has nothing to compare before that, and takes nothing out.
    assert!(half.learned.audit().await.tables.iter().all(|table| !table.is_compared));
    assert_eq!(held(&record), 55_000);
    route_source.send(vec![Event::Complete]).await;
    until("what was not said again goes", || held(&record) == 44_000).await;
    let audit = half.learned.audit().await;
    assert!(audit.is_equal(), "{audit:?}");
    assert_eq!(audit.tables.iter().map(|table| table.held).sum::<u64>(), 44_000);
}

#[tokio::test]
async fn an_audit_finds_what_differs_and_fixes_it() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let half = Half::start(&socket);
    let route_source = half.route_source("frr");
    half.learned.expect(vec!["frr".to_owned()]).await;
    route_source.send(vec![Event::Up, many(20_000, "10.0.0.9"), Event::Complete]).await;
    until("routes arrive", || held(&record) == 22_000).await;
    assert!(half.learned.audit().await.is_equal());
    {
        let mut learned = record.learned.lock().unwrap();
        let some: Vec<_> = learned.routes.keys().step_by(500).cloned().collect();
        let (lost, wrong) = some.split_at(some.len() / 2);
        for prefix in lost {
            learned.routes.remove(prefix);
        }
        for prefix in wrong {
            learned.routes.insert(prefix.clone(), 4_711);
        }
        learned.routes.insert((String::new(), 4, 0x0a00_0000, 8), 1);
    }
    let audit = half.learned.audit().await;
    assert!(!audit.is_equal());
    assert_eq!(audit.tables.iter().map(|table| table.different).sum::<u64>(), 45);
    let audit = half.learned.audit().await;
    assert!(audit.is_equal(), "{audit:?}");
    assert_eq!(held(&record), 22_000);
    // Whoever watches sees it.
    let text = stoa_controller::metrics::render(&half.connection).await;
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
async fn what_does_not_fit_is_said_and_the_rest_works() {
    let (_folder, socket) = socket();
    let record = Record::default();
    record.learned.lock().unwrap().limit = Some(1_000);
    let _fake = Fake::start(&socket, &record);
    let half = Half::start(&socket);
    let route_source = half.route_source("frr");
    half.learned.expect(vec!["frr".to_owned()]).await;
    route_source.send(vec![Event::Up, many(1_500, "10.0.0.9"), Event::Complete]).await;
    let end = Instant::now() + PATIENCE;
    while half.learned.work().await.refused < 650 {
        assert!(Instant::now() < end, "refusals are counted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(held(&record), 1_000);
    let report = half.learned.report().await;
    assert_eq!(report.reason, "no room");
    assert_eq!(report.tables.iter().map(|table| table.different).sum::<u64>(), 650);
    // What is refused again is not called repaired.
    let text = stoa_controller::metrics::render(&half.connection).await;
    for line in ["stoa_route_audit_repaired_routes_total 0", "stoa_route_audit_equal 0.0"] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    // It fits when others go, and the rest has worked all the time.
    record.learned.lock().unwrap().limit = None;
    half.learned.audit().await;
    assert!(half.learned.audit().await.is_equal());
    assert_eq!(held(&record), 1_650);
}

#[tokio::test]
async fn a_peer_that_floods_and_flaps_is_followed_to_its_last_word() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let half = Half::start(&socket);
    let (peer, calm) = (half.route_source("peer"), half.route_source("calm"));
    half.learned.expect(vec!["peer".to_owned(), "calm".to_owned()]).await;
    let path = NextHopPath { interface: Some("b".into()), gateway: None, weight: 1 };
    let one = Update {
        protocol: v1::Protocol::Ospf,
        target: Some(Target::Paths([path].into(), [].into())),
        ip4: vec![(0x0b00_0000, 8)],
        ip6: vec![],
    };
    calm.send(vec![Event::Up, Event::Update(one.clone()), Event::Complete]).await;
    // As fast as it can: up, everything, another way for everything, down and up again.
    for turn in 0..40_u32 {
        let gateway = format!("10.0.0.{}", 2 + turn);
        let event = if turn % 2 == 0 { Event::Down } else { Event::Complete };
        peer.send(vec![Event::Up, many(5_000, &gateway), event]).await;
    }
    // Who is calm is heard meanwhile, and what he says arrives.
    let other = Update { ip4: vec![(0x0c00_0000, 8)], ..one };
    calm.send(vec![Event::Update(other)]).await;
    peer.send(vec![Event::Up, many(1_000, "10.0.0.1"), Event::Complete]).await;
    until("the last word", || held(&record) == 1_100 + 2).await;
    assert!(half.learned.audit().await.is_equal());
    assert_eq!(half.learned.work().await.received, 40 * 5_500 + 1_100 + 2);
}

#[tokio::test]
async fn what_a_former_controller_left_stays_until_as_much_was_said() {
    let (_folder, socket) = socket();
    let record = Record::default();
    let _fake = Fake::start(&socket, &record);
    let half = Half::start(&socket);
    let route_source = half.route_source("zebra");
    half.learned.expect(vec!["zebra".to_owned()]).await;
    route_source.send(vec![Event::Up, many(50_000, "10.0.0.9"), Event::PresumedComplete]).await;
    until("all is said", || record.learned.lock().unwrap().completed == 1).await;
    assert_eq!(held(&record), 55_000);

    // zebra was started anew as well: it has its first routes, and is silent while its daemons wait for their neighbours.
    drop((half, route_source));
    let half = Half::start(&socket);
    half.learned.expect(vec!["zebra".to_owned()]).await;
    let before = record.learned.lock().unwrap().counted;
    let route_source = half.route_source("zebra");
    route_source.send(vec![Event::Up, many(1_000, "10.0.0.8"), Event::PresumedComplete]).await;
    until("it is looked at twice", || record.learned.lock().unwrap().counted >= before + 2).await;
    assert_eq!((held(&record), record.learned.lock().unwrap().completed), (55_000, 1));
    // They come back.
    route_source.send(vec![many(49_000, "10.0.0.8")]).await;
    until("what was not said again goes", || held(&record) == 53_900).await;
    assert_eq!(record.learned.lock().unwrap().completed, 2);
    assert!(half.learned.audit().await.is_equal());
}
