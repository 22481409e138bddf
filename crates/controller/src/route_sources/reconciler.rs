//! Opens and closes route sources as the configuration changes. Unchanged ones are not touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::{Kind, RouteSourceConfig, RouteSourceState, RouteSourceStates};
use crate::apply::ForwarderConnection;
use crate::learned::{Event, Learned, RouteSource, Source};
use crate::linux::peer::unknown_users;
use crate::{bgp_route_source, linux};

/// Reconciles the route sources with the configuration in force.
#[derive(Debug)]
pub struct Reconciler {
    /// The table of learned routes.
    learned: Learned,
    /// The alias of our devices, which identifies host interfaces.
    alias: String,
    states: Arc<RouteSourceStates>,
    open_sources: BTreeMap<String, OpenRouteSource>,
}

/// An open route source.
#[derive(Debug)]
struct OpenRouteSource {
    config: RouteSourceConfig,
    route_source: RouteSource,
    state: Arc<RouteSourceState>,
    task: JoinHandle<()>,
}

impl Reconciler {
    /// For host interfaces of the forwarder on that socket.
    pub fn new(forwarder_socket: &Path, states: Arc<RouteSourceStates>, learned: Learned) -> Self {
        let alias = linux::alias(forwarder_socket);
        Self { learned, alias, states, open_sources: BTreeMap::new() }
    }

    /// Follows the configuration until dropped.
    pub async fn run(mut self, connection: &Arc<ForwarderConnection>) {
        let mut changes = connection.changes();
        loop {
            changes.mark_unchanged();
            let desired = connection.configuration().map(|it| Arc::clone(&it.route_sources));
            self.reconcile(desired.as_deref().unwrap_or_default(), connection).await;
            if changes.changed().await.is_err() {
                // The connection is gone: the controller is shutting down.
                return;
            }
        }
    }

    async fn reconcile(
        &mut self,
        desired: &[RouteSourceConfig],
        connection: &Arc<ForwarderConnection>,
    ) {
        let names = desired.iter().map(|route_source| route_source.source.name.clone()).collect();
        self.learned.expect(names).await;
        let stays = |name: &String, it: &OpenRouteSource| {
            desired.iter().any(|route_source| {
                route_source.source.name == *name && it.config.may_become(route_source)
            })
        };
        let gone: Vec<String> = self
            .open_sources
            .iter()
            .filter(|(name, it)| !stays(name, it))
            .map(|it| it.0.clone())
            .collect();
        for name in gone {
            if let Some(source) = self.open_sources.remove(&name) {
                self.close(source).await;
            }
        }
        for config in desired {
            let name = &config.source.name;
            match self.open_sources.get_mut(name) {
                Some(source) if source.config == *config => {}
                Some(source) => {
                    source.route_source.reconfigure(&config.source).await;
                    source.config = config.clone();
                    let Source { preference, stale_time, .. } = &config.source;
                    tracing::info!(
                        route_source = name,
                        preference,
                        ?stale_time,
                        "route source settings changed"
                    );
                }
                None => {
                    let source = self.open(config, connection);
                    // Starts the stale time: a daemon that never connects must not retain old routes forever.
                    source.route_source.send(Vec::new()).await;
                    self.open_sources.insert(name.clone(), source);
                }
            }
        }
    }

    fn open(
        &self,
        config: &RouteSourceConfig,
        connection: &Arc<ForwarderConnection>,
    ) -> OpenRouteSource {
        let name = &config.source.name;
        let route_source = self.learned.open(config.source.clone());
        let state = self.states.open(config.kind.name(), name);
        state.fail("not open yet");
        let context = linux::NamespaceContext {
            netns: config.netns.clone(),
            alias: self.alias.clone(),
            connection: Arc::clone(connection),
        };
        let (task_source, task_state) = (route_source.clone(), Arc::clone(&state));
        let task = match config.kind {
            Kind::Fpm { address, port } => tokio::spawn(linux::fpm::run(
                task_source,
                ((address, port).into(), config.peer_users.clone()),
                context,
                task_state,
            )),
            Kind::Netlink { table, receive_buffer } => {
                let buffer_size = receive_buffer as usize;
                tokio::spawn(linux::routes::run(
                    task_source,
                    table,
                    buffer_size,
                    context,
                    task_state,
                ))
            }
            Kind::Bgp { address, port, asn, router_id, add_paths, multipath } => {
                let netns = config.netns.clone();
                let settings = bgp_route_source::Settings {
                    netns,
                    peer_users: config.peer_users.clone(),
                    address,
                    port,
                    asn,
                    router_id,
                    add_paths,
                    multipath,
                };
                tokio::spawn(bgp_route_source::run(task_source, settings, task_state))
            }
        };
        tracing::info!(route_source = name, kind = config.kind.name(), "route source configured");
        for user in unknown_users(config) {
            tracing::warn!(route_source = name, user, "this machine has no such peer-user");
        }
        OpenRouteSource { config: config.clone(), route_source, state, task }
    }

    async fn close(&self, source: OpenRouteSource) {
        let OpenRouteSource { config, route_source, state, task } = source;
        let (name, kind) = (&config.source.name, config.kind.name());
        task.abort();
        // The task's events precede `Closed`.
        let _ = task.await;
        route_source.send(vec![Event::Closed]).await;
        self.states.close(kind, name, &state);
        tracing::info!(route_source = name, kind, "route source closed");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stoa_api::{unix, v1};

    use super::*;
    use crate::configuration::Configuration;
    use crate::route_sources::RouteSourceStatistics;

    /// A route source on a port that the system chooses.
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
        RouteSourceConfig { source, netns: String::new(), peer_users: vec![], kind }
    }

    #[tokio::test]
    async fn a_route_source_stays_open_when_its_preference_changes() {
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let connection = Arc::new(ForwarderConnection::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&connection)).unwrap();
        let mut reconciler = Reconciler::new(socket, Arc::default(), learned);
        reconciler.reconcile(&[route_source(None, 120, 1)], &connection).await;
        let first = Arc::clone(&reconciler.open_sources["x"].state);
        let changed = route_source(Some(7), 9, 1);
        reconciler.reconcile(std::slice::from_ref(&changed), &connection).await;
        let source = &reconciler.open_sources["x"];
        assert!(Arc::ptr_eq(&source.state, &first) && !source.task.is_finished());
        assert_eq!(
            (source.route_source.stale_time(), &source.config),
            (Duration::from_secs(9), &changed)
        );
        // A change of session parameters opens it again.
        reconciler.reconcile(&[route_source(Some(7), 9, 2)], &connection).await;
        assert!(!Arc::ptr_eq(&reconciler.open_sources["x"].state, &first));
        reconciler.reconcile(&[], &connection).await;
        assert!(reconciler.open_sources.is_empty() && reconciler.states.all().is_empty());
    }

    /// The statistics of the only route source, once they satisfy the condition.
    async fn wait_until(
        reconciler: &Reconciler,
        what: &str,
        is_so: impl Fn(&RouteSourceStatistics) -> bool,
    ) -> RouteSourceStatistics {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let statistics = reconciler.states.all().remove(0).2;
            if is_so(&statistics) {
                return statistics;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what}: {statistics:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A process that connects beside zebra must not take its routes away.
    #[tokio::test]
    async fn a_second_fpm_connection_does_not_replace_one_in_use() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let connection = Arc::new(ForwarderConnection::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&connection)).unwrap();
        let mut reconciler = Reconciler::new(socket, Arc::default(), learned);
        let kind = Kind::Fpm { address: at.ip(), port: at.port() };
        let config = RouteSourceConfig { kind, ..route_source(None, 120, 1) };
        reconciler.reconcile(&[config], &connection).await;
        wait_until(&reconciler, "listens", |it| it.is_open).await;
        let first = tokio::net::TcpStream::connect(at).await.unwrap();
        wait_until(&reconciler, "connected", |it| it.sessions == 1).await;
        let second = tokio::net::TcpStream::connect(at).await.unwrap();
        second.readable().await.unwrap();
        assert!(matches!(second.try_read(&mut [0; 1]), Ok(0)), "it is closed");
        let statistics = wait_until(&reconciler, "any", |_| true).await;
        assert_eq!((statistics.sessions, statistics.since_unix_s > 0), (1, true));
        drop(first);
        wait_until(&reconciler, "ended", |it| it.since_unix_s == 0).await;
        let _third = tokio::net::TcpStream::connect(at).await.unwrap();
        wait_until(&reconciler, "connected again", |it| it.sessions == 2).await;
    }

    #[tokio::test]
    async fn a_route_source_that_cannot_listen_is_opened_again() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let connection = Arc::new(ForwarderConnection::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&connection)).unwrap();
        let mut reconciler = Reconciler::new(socket, Arc::default(), learned);
        let mut config = route_source(None, 120, 1);
        let Kind::Bgp { port, .. } = &mut config.kind else { panic!("a session") };
        *port = at.port();
        reconciler.reconcile(&[config], &connection).await;
        let reason = format!("cannot listen at {at}: ");
        let statistics =
            wait_until(&reconciler, "refused", |it| it.reason.starts_with(&reason)).await;
        assert!(!statistics.is_open && statistics.reason.contains("in use"), "{statistics:?}");
        drop(taken);
        let statistics = wait_until(&reconciler, "listens", |it| it.is_open).await;
        assert_eq!(statistics.reason, "the daemon has not connected yet");
        // In a namespace that does not exist.
        let mut elsewhere = route_source(None, 120, 1);
        elsewhere.netns = "stoa-not-there".to_owned();
        reconciler.reconcile(std::slice::from_ref(&elsewhere), &connection).await;
        let reason = "there is no network namespace \"stoa-not-there\"";
        let statistics =
            wait_until(&reconciler, "no namespace", |it| it.reason.contains(reason)).await;
        assert!(!statistics.is_open);
        let host_interface =
            v1::HostInterface { netns: "stoa-not-there-2".to_owned(), ..Default::default() };
        let interface = v1::Interface {
            name: "wan".to_owned(),
            host_interface: Some(host_interface),
            ..Default::default()
        };
        let port = |interface: &str, netns: &str| {
            let device = v1::AfXdp { netns: netns.into(), ..v1::AfXdp::default() };
            let driver = Some(v1::port::Driver::AfXdp(device));
            v1::Port { interface: interface.into(), driver, ..v1::Port::default() }
        };
        let missing_namespaces = crate::route_sources::missing_namespaces(
            &[elsewhere, route_source(None, 120, 1)],
            &vec![interface].into(),
            &[port("lan", "stoa-not-there"), port("own", "")],
        );
        assert_eq!(missing_namespaces.len(), 2);
        assert!(
            missing_namespaces[1].contains("\"stoa-not-there-2\"")
                && missing_namespaces[1].contains("host interface of wan")
        );
        assert!(
            missing_namespaces[0].contains("\"stoa-not-there\"")
                && missing_namespaces[0].contains("route source x, port lan need it: ip netns add")
        );
    }
}
