//! Opens route sources as the configuration says, and shuts those that it says no more. Those that stay are not touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::{Kind, RouteSourceConfig, RouteSourceState, States};
use crate::apply::Line;
use crate::learned::{Event, Learned, RouteSource, Source};
use crate::{bgp_route_source, linux};

/// Keeps the route sources of the configuration in force.
#[derive(Debug)]
pub struct Keeper {
    /// The table of learned routes.
    learned: Learned,
    /// The alias of our devices, by which host interfaces are known.
    alias: String,
    states: Arc<States>,
    opened: BTreeMap<String, Opened>,
}

/// A route source that is open.
#[derive(Debug)]
struct Opened {
    config: RouteSourceConfig,
    route_source: RouteSource,
    state: Arc<RouteSourceState>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// For host interfaces of the forwarder on that socket.
    pub fn new(forwarder_socket: &Path, states: Arc<States>, learned: Learned) -> Self {
        let alias = linux::alias(forwarder_socket);
        Self { learned, alias, states, opened: BTreeMap::new() }
    }

    /// Follows the configuration until dropped.
    pub async fn keep(mut self, line: &Arc<Line>) {
        let mut changes = line.changes();
        loop {
            changes.mark_unchanged();
            let desired = line.configuration().map(|it| Arc::clone(&it.route_sources));
            self.follow(desired.as_deref().unwrap_or_default(), line).await;
            if changes.changed().await.is_err() {
                // The line is gone, and with it the controller.
                return;
            }
        }
    }

    async fn follow(&mut self, desired: &[RouteSourceConfig], line: &Arc<Line>) {
        let names = desired.iter().map(|route_source| route_source.source.name.clone()).collect();
        self.learned.expect(names).await;
        let stays = |name: &String, it: &Opened| {
            desired.iter().any(|route_source| {
                route_source.source.name == *name && it.config.may_become(route_source)
            })
        };
        let gone: Vec<String> = self
            .opened
            .iter()
            .filter(|(name, it)| !stays(name, it))
            .map(|it| it.0.clone())
            .collect();
        for name in gone {
            if let Some(opened) = self.opened.remove(&name) {
                self.shut(opened).await;
            }
        }
        for config in desired {
            let name = &config.source.name;
            match self.opened.get_mut(name) {
                Some(opened) if opened.config == *config => {}
                Some(opened) => {
                    opened.route_source.weigh(&config.source).await;
                    opened.config = config.clone();
                    let Source { preference, stale_time, .. } = &config.source;
                    tracing::info!(
                        route_source = name,
                        preference,
                        ?stale_time,
                        "route source counts otherwise now"
                    );
                }
                None => {
                    let opened = self.open(config, line);
                    // From now on its time runs: a daemon that never comes keeps nothing for ever.
                    opened.route_source.tell(Vec::new()).await;
                    self.opened.insert(name.clone(), opened);
                }
            }
        }
    }

    fn open(&self, config: &RouteSourceConfig, line: &Arc<Line>) -> Opened {
        let name = &config.source.name;
        let route_source = self.learned.open(config.source.clone());
        let state = self.states.open(config.kind.name(), name);
        state.fail("not open yet");
        let place = linux::Place {
            netns: config.netns.clone(),
            alias: self.alias.clone(),
            line: Arc::clone(line),
        };
        let (its, its_state) = (route_source.clone(), Arc::clone(&state));
        let task = match config.kind {
            Kind::Fpm { address, port } => {
                tokio::spawn(linux::fpm::run(its, (address, port).into(), place, its_state))
            }
            Kind::Linux { table, receive_buffer } => {
                let room = receive_buffer as usize;
                tokio::spawn(linux::routes::run(its, table, room, place, its_state))
            }
            Kind::Bgp { address, port, asn, router_id, add_paths, multipath } => {
                let netns = config.netns.clone();
                let settings = bgp_route_source::Settings {
                    netns,
                    address,
                    port,
                    asn,
                    router_id,
                    add_paths,
                    multipath,
                };
                tokio::spawn(bgp_route_source::run(its, settings, its_state))
            }
        };
        tracing::info!(route_source = name, kind = config.kind.name(), "route source configured");
        Opened { config: config.clone(), route_source, state, task }
    }

    async fn shut(&self, opened: Opened) {
        let Opened { config, route_source, state, task } = opened;
        let (name, kind) = (&config.source.name, config.kind.name());
        task.abort();
        // What it says comes before its end.
        let _ = task.await;
        route_source.tell(vec![Event::Closed]).await;
        self.states.shut(kind, name, &state);
        tracing::info!(route_source = name, kind, "route source shut");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stoa_api::{unix, v1};

    use super::*;
    use crate::configuration::Configuration;
    use crate::route_sources::Figures;

    /// A route source at a port that the system chooses.
    fn route_source(preference: Option<u8>, stale_time_s: u64, multipath: u8) -> RouteSourceConfig {
        let stale_time = Duration::from_secs(stale_time_s);
        let source = Source { name: "x".to_owned(), vrf: "".into(), preference, stale_time };
        let kind = Kind::Bgp {
            address: [127, 0, 0, 1].into(),
            port: 0,
            asn: 65_000,
            router_id: [127, 0, 0, 1].into(),
            add_paths: true,
            multipath,
        };
        RouteSourceConfig { source, netns: String::new(), kind }
    }

    #[tokio::test]
    async fn a_route_source_stays_open_when_its_routes_count_otherwise() {
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let line = Arc::new(Line::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&line)).unwrap();
        let mut keeper = Keeper::new(socket, Arc::default(), learned);
        keeper.follow(&[route_source(None, 120, 1)], &line).await;
        let first = Arc::clone(&keeper.opened["x"].state);
        let changed = route_source(Some(7), 9, 1);
        keeper.follow(std::slice::from_ref(&changed), &line).await;
        let opened = &keeper.opened["x"];
        assert!(Arc::ptr_eq(&opened.state, &first) && !opened.task.is_finished());
        assert_eq!(
            (opened.route_source.stale_time(), &opened.config),
            (Duration::from_secs(9), &changed)
        );
        // What a session is made of cannot change under it.
        keeper.follow(&[route_source(Some(7), 9, 2)], &line).await;
        assert!(!Arc::ptr_eq(&keeper.opened["x"].state, &first));
        keeper.follow(&[], &line).await;
        assert!(keeper.opened.is_empty() && keeper.states.all().is_empty());
    }

    /// What the only route source says, once that is so.
    async fn wait(keeper: &Keeper, what: &str, is_so: impl Fn(&Figures) -> bool) -> Figures {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let figures = keeper.states.all().remove(0).2;
            if is_so(&figures) {
                return figures;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what}: {figures:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_route_source_that_cannot_listen_says_reason_and_is_tried_again() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let line = Arc::new(Line::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&line)).unwrap();
        let mut keeper = Keeper::new(socket, Arc::default(), learned);
        let mut config = route_source(None, 120, 1);
        let Kind::Bgp { port, .. } = &mut config.kind else { panic!("a session") };
        *port = at.port();
        keeper.follow(&[config], &line).await;
        let reason = format!("cannot listen at {at}: ");
        let figures = wait(&keeper, "refused", |it| it.reason.starts_with(&reason)).await;
        assert!(!figures.is_open && figures.reason.contains("in use"), "{figures:?}");
        drop(taken);
        let figures = wait(&keeper, "listens", |it| it.is_open).await;
        assert_eq!(figures.reason, "the daemon has not connected yet");
        // In a namespace that is not there.
        let mut elsewhere = route_source(None, 120, 1);
        elsewhere.netns = "stoa-not-there".to_owned();
        keeper.follow(std::slice::from_ref(&elsewhere), &line).await;
        let reason = "there is no network namespace \"stoa-not-there\"";
        let figures = wait(&keeper, "no namespace", |it| it.reason.contains(reason)).await;
        assert!(!figures.is_open);
        let host_interface =
            v1::HostInterface { netns: "stoa-not-there-2".to_owned(), ..Default::default() };
        let interface = v1::Interface {
            name: "wan".to_owned(),
            host_interface: Some(host_interface),
            ..Default::default()
        };
        let desired = v1::Desired { interfaces: vec![interface], ..Default::default() };
        let lacking =
            crate::route_sources::lacking(&[elsewhere, route_source(None, 120, 1)], &desired);
        assert_eq!(lacking.len(), 2);
        assert!(
            lacking[1].contains("\"stoa-not-there-2\"")
                && lacking[1].contains("host interface of wan")
        );
        assert!(lacking[0].contains("\"stoa-not-there\"") && lacking[0].contains("route source x"));
    }
}
