//! Opens doors as the configuration says, and shuts those that it says no more. Those that stay are not touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::{DoorConfig, DoorState, Kind, States};
use crate::apply::Line;
use crate::learned::{Door, Event, Learned};
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
            wanted.iter().any(|door| door.source.name == *name && *door == it.config)
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
            if !self.opened.contains_key(name) {
                let opened = self.open(config, line);
                // From now on its time runs: a daemon that never comes keeps nothing for ever.
                opened.door.tell(Vec::new()).await;
                self.opened.insert(name.clone(), opened);
            }
        }
    }

    fn open(&self, config: &DoorConfig, line: &Arc<Line>) -> Opened {
        let name = &config.source.name;
        let door = self.learned.open(config.source.clone());
        let state = self.states.open(config.kind.name(), name);
        state.down("not open yet");
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
        tracing::info!(door = name, kind = config.kind.name(), "opened");
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
        tracing::info!(door = name, kind, "shut");
    }
}
