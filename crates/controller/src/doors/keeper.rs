//! Opens doors as the configuration says, and shuts those that it says no more. Those that stay are not touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::{DoorConfig, DoorState, Kind, States};
use crate::apply::Line;
use crate::learned::{Door, Event, Learned, Source};
use crate::{bgp_door, linux};

/// Keeps the doors of the configuration in force.
#[derive(Debug)]
pub struct Keeper {
    /// The table of learned routes.
    learned: Learned,
    /// The alias of our devices, by which mirrors are known.
    alias: String,
    states: Arc<States>,
    opened: BTreeMap<String, Opened>,
}

/// A door that is open.
#[derive(Debug)]
struct Opened {
    config: DoorConfig,
    door: Door,
    state: Arc<DoorState>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// For mirrors of the forwarder on that socket.
    pub fn new(forwarder_socket: &Path, states: Arc<States>, learned: Learned) -> Self {
        let alias = linux::alias(forwarder_socket);
        Self { learned, alias, states, opened: BTreeMap::new() }
    }

    /// Follows the configuration until dropped.
    pub async fn keep(mut self, line: &Arc<Line>) {
        let mut changes = line.changes();
        loop {
            changes.mark_unchanged();
            let wanted = line.configuration().map(|it| Arc::clone(&it.doors));
            self.follow(wanted.as_deref().unwrap_or_default(), line).await;
            if changes.changed().await.is_err() {
                // The line is gone, and with it the controller.
                return;
            }
        }
    }

    async fn follow(&mut self, wanted: &[DoorConfig], line: &Arc<Line>) {
        let names = wanted.iter().map(|door| door.source.name.clone()).collect();
        self.learned.expect(names).await;
        let stays = |name: &String, it: &Opened| {
            wanted.iter().any(|door| door.source.name == *name && it.config.may_become(door))
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
        for config in wanted {
            let name = &config.source.name;
            match self.opened.get_mut(name) {
                Some(opened) if opened.config == *config => {}
                Some(opened) => {
                    opened.door.weigh(&config.source).await;
                    opened.config = config.clone();
                    let Source { preference, stale_time, .. } = &config.source;
                    tracing::info!(
                        door = name,
                        preference,
                        ?stale_time,
                        "door counts otherwise now"
                    );
                }
                None => {
                    let opened = self.open(config, line);
                    // From now on its time runs: a daemon that never comes keeps nothing for ever.
                    opened.door.tell(Vec::new()).await;
                    self.opened.insert(name.clone(), opened);
                }
            }
        }
    }

    fn open(&self, config: &DoorConfig, line: &Arc<Line>) -> Opened {
        let name = &config.source.name;
        let door = self.learned.open(config.source.clone());
        let state = self.states.open(config.kind.name(), name);
        state.fail("not open yet");
        let place = linux::Place {
            netns: config.netns.clone(),
            alias: self.alias.clone(),
            line: Arc::clone(line),
        };
        let (its, its_state) = (door.clone(), Arc::clone(&state));
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
                let settings = bgp_door::Settings {
                    netns,
                    address,
                    port,
                    asn,
                    router_id,
                    add_paths,
                    multipath,
                };
                tokio::spawn(bgp_door::run(its, settings, its_state))
            }
        };
        tracing::info!(door = name, kind = config.kind.name(), "door configured");
        Opened { config: config.clone(), door, state, task }
    }

    async fn shut(&self, opened: Opened) {
        let Opened { config, door, state, task } = opened;
        let (name, kind) = (&config.source.name, config.kind.name());
        task.abort();
        // What it says comes before its end.
        let _ = task.await;
        door.tell(vec![Event::Closed]).await;
        self.states.shut(kind, name, &state);
        tracing::info!(door = name, kind, "door shut");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stoa_api::{unix, v1};

    use super::*;
    use crate::configuration::Configuration;
    use crate::doors::Figures;

    /// A door at a port that the system chooses.
    fn door(preference: Option<u8>, stale_time_s: u64, multipath: u8) -> DoorConfig {
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
        DoorConfig { source, netns: String::new(), kind }
    }

    #[tokio::test]
    async fn a_door_stays_open_when_its_routes_count_otherwise() {
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let line = Arc::new(Line::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&line)).unwrap();
        let mut keeper = Keeper::new(socket, Arc::default(), learned);
        keeper.follow(&[door(None, 120, 1)], &line).await;
        let first = Arc::clone(&keeper.opened["x"].state);
        let changed = door(Some(7), 9, 1);
        keeper.follow(std::slice::from_ref(&changed), &line).await;
        let opened = &keeper.opened["x"];
        assert!(Arc::ptr_eq(&opened.state, &first) && !opened.task.is_finished());
        assert_eq!((opened.door.stale_time(), &opened.config), (Duration::from_secs(9), &changed));
        // What a session is made of cannot change under it.
        keeper.follow(&[door(Some(7), 9, 2)], &line).await;
        assert!(!Arc::ptr_eq(&keeper.opened["x"].state, &first));
        keeper.follow(&[], &line).await;
        assert!(keeper.opened.is_empty() && keeper.states.all().is_empty());
    }

    /// What the only door says, once that is so.
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
    async fn a_door_that_cannot_listen_says_why_and_is_tried_again() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let socket = Path::new("/nowhere/f.sock");
        let empty = Configuration::parse(Path::new("test"), "{}".to_owned()).unwrap();
        let line = Arc::new(Line::new(unix::connect_lazily(socket), empty));
        let learned = Learned::start(Arc::clone(&line)).unwrap();
        let mut keeper = Keeper::new(socket, Arc::default(), learned);
        let mut config = door(None, 120, 1);
        let Kind::Bgp { port, .. } = &mut config.kind else { panic!("a session") };
        *port = at.port();
        keeper.follow(&[config], &line).await;
        let why = format!("cannot listen at {at}: ");
        let figures = wait(&keeper, "refused", |it| it.why.starts_with(&why)).await;
        assert!(!figures.is_open && figures.why.contains("in use"), "{figures:?}");
        drop(taken);
        let figures = wait(&keeper, "listens", |it| it.is_open).await;
        assert_eq!(figures.why, "the daemon has not connected yet");
        // In a namespace that is not there.
        let mut elsewhere = door(None, 120, 1);
        elsewhere.netns = "stoa-not-there".to_owned();
        keeper.follow(std::slice::from_ref(&elsewhere), &line).await;
        let why = "there is no network namespace \"stoa-not-there\"";
        let figures = wait(&keeper, "no namespace", |it| it.why.contains(why)).await;
        assert!(!figures.is_open);
        let mirror = v1::Mirror { netns: "stoa-not-there-2".to_owned(), ..Default::default() };
        let interface =
            v1::Interface { name: "wan".to_owned(), mirror: Some(mirror), ..Default::default() };
        let desired = v1::Desired { interfaces: vec![interface], ..Default::default() };
        let lacking = crate::doors::lacking(&[elsewhere, door(None, 120, 1)], &desired);
        assert_eq!(lacking.len(), 2);
        assert!(
            lacking[1].contains("\"stoa-not-there-2\"") && lacking[1].contains("mirror of wan")
        );
        assert!(lacking[0].contains("\"stoa-not-there\"") && lacking[0].contains("door x"));
    }
}
