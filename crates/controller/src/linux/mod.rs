//! Linux beside us: the devices of mirrors get the addresses of their interfaces and the routes
//! through them, each in its network namespace. The only room that knows netlink.
//!
//! The forwarder makes the devices and keeps MAC, MTU and link state; here is what a program sees
//! above them. What we put there bears our mark, so that what is no longer wanted is found and
//! taken out (mark and sweep), and what others put there stays.

pub mod devices;
pub mod fpm;
pub mod inside;
pub mod message;
mod namespace;
pub mod orders;
pub mod routes;
pub mod socket;
pub mod translate;
mod wanted;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;

use crate::apply::Line;
use namespace::Linux;
use wanted::Namespace;

/// How often Linux is looked at: devices come and go, and take their routes along.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Where named namespaces are.
const NAMESPACES: &str = "/run/netns";
/// What marks our routes and addresses (rtnetlink(7), rtm_protocol): a number that nobody in
/// `/etc/iproute2/rt_protos` has.
const MARK: u8 = 83;
/// How long to wait before a namespace that could not be entered is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The alias of the devices that the forwarder on that socket makes.
pub fn alias(forwarder_socket: &Path) -> String {
    // The forwarder marks its devices with the same words.
    format!("stoa mirror of {}", forwarder_socket.display())
}

/// Where a door is: a network namespace with mirrors of ours.
#[derive(Clone, Debug)]
pub struct Place {
    /// The namespace; "" is our own.
    pub netns: String,
    /// The alias of our devices.
    pub alias: String,
    /// The configuration in force.
    pub line: Arc<Line>,
}

impl Place {
    /// What tells a namespace from another one of the same name that came after it; `None`: there is none.
    pub fn identity(&self) -> Option<(u64, u64)> {
        inside::identity(&self.netns)
    }
}

/// Keeps addresses and routes of all mirrors as wanted, for ever.
#[derive(Debug)]
pub struct Keeper {
    /// The alias of our devices.
    alias: String,
    /// What was wanted when we last swept everywhere.
    swept: Option<Vec<(String, String)>>,
    /// What was wrong when we last looked, by namespace: said once.
    wrong: BTreeMap<String, String>,
    /// What each namespace was when its routes were last right.
    settled: BTreeMap<String, namespace::Settled>,
}

impl Keeper {
    /// For mirrors of the forwarder on that socket.
    pub fn new(forwarder_socket: &Path) -> Keeper {
        let alias = alias(forwarder_socket);
        Keeper { alias, swept: None, wrong: BTreeMap::new(), settled: BTreeMap::new() }
    }

    /// Looks, and mends, until dropped.
    pub async fn keep(mut self, line: &Line) {
        loop {
            if line.in_sync()
                && let Some(configuration) = line.configuration()
            {
                self.mend(&configuration.desired).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn mend(&mut self, desired: &v1::Desired) {
        let wanted = wanted::namespaces(desired);
        for (name, namespace) in &wanted {
            let settled = self.settled.remove(name);
            match self.mend_one(name, namespace, settled.as_ref()).await {
                Ok(settled) => {
                    self.settled.insert(name.clone(), settled);
                    if self.wrong.remove(name).is_some() {
                        tracing::info!(namespace = name, "mirrors have their addresses and routes");
                    }
                }
                Err(why) => self.say(name, why),
            }
        }
        let devices: Vec<(String, String)> = wanted
            .iter()
            .flat_map(|(name, it)| it.devices.keys().map(|device| (name.clone(), device.clone())))
            .collect();
        if self.swept.as_ref() != Some(&devices) {
            self.sweep(&wanted).await;
            self.swept = Some(devices);
        }
    }

    async fn mend_one(
        &self,
        name: &str,
        wanted: &Namespace,
        settled: Option<&namespace::Settled>,
    ) -> Result<namespace::Settled, String> {
        let linux = Linux::enter(name).map_err(|error| error.to_string())?;
        linux.mend(wanted, &self.alias, settled).await.map_err(|error| error.to_string())
    }

    fn say(&mut self, name: &str, why: String) {
        if self.wrong.get(name) != Some(&why) {
            let place = if name.is_empty() { "our own" } else { name };
            tracing::warn!("mirrors in network namespace {place}: {why}; trying again");
            self.wrong.insert(name.to_owned(), why);
        }
    }

    /// Removes our devices that nobody wants: of a forwarder that was killed before it was told.
    async fn sweep(&self, wanted: &BTreeMap<String, Namespace>) {
        let mut names = vec![String::new()];
        let entries = std::fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
        names.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        for name in names {
            // A namespace that cannot be entered holds nothing that we could sweep.
            let Ok(linux) = Linux::enter(&name) else { continue };
            let known = wanted.get(&name);
            match linux.sweep(known, &self.alias).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(namespace = name, count, "stale mirrors removed"),
                Err(error) => tracing::warn!(namespace = name, %error, "stale mirrors stay"),
            }
        }
    }
}
