//! Linux beside us: the devices of host interfaces get the addresses of their interfaces and the routes
//! through them, each in its network namespace. The only room that knows netlink.
//!
//! The forwarder makes the devices and keeps MAC, MTU and link state; here is what a program sees
//! above them. What we put there bears our mark, so that what is no longer desired is found and
//! taken out (mark and sweep), and what others put there stays.

mod desired;
pub mod devices;
pub mod fpm;
pub mod inside;
pub mod message;
mod namespace;
pub mod orders;
pub mod routes;
pub mod rules;
pub mod socket;
pub mod spares;
pub mod translate;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::apply::Line;
use crate::configuration::Configuration;
use desired::Namespace;
use namespace::Linux;

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
    format!("stoa host interface of {}", forwarder_socket.display())
}

/// Where a route source is: a network namespace with host interfaces of ours.
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

/// Keeps addresses and routes of all host interfaces as desired, for ever.
#[derive(Debug)]
pub struct Keeper {
    /// The alias of our devices.
    alias: String,
    /// What was desired when we last swept everywhere.
    swept: Option<Vec<(String, String)>>,
    /// What was wrong when we last looked, by namespace: said once.
    wrong: BTreeMap<String, String>,
    /// What each namespace was when its routes were last right.
    settled: BTreeMap<String, namespace::Settled>,
    /// The rules that each namespace was given, and those that it could not be given: said once.
    ruled: BTreeMap<String, Ruled>,
    /// Queues of the devices, so that they outlive a forwarder with their carrier.
    spares: spares::Spares,
}

/// Rules of the configuration in one namespace.
#[derive(Debug, Default)]
struct Ruled {
    /// Whether a look found nothing of ours there, and nothing is desired.
    is_bare: bool,
    /// Rules that the kernel there cannot have: not tried again.
    impossible: BTreeSet<message::Rule>,
    not_imported: Vec<String>,
}

impl Keeper {
    /// For host interfaces of the forwarder on that socket, with what opens spare queues of their devices.
    pub fn new(forwarder_socket: &Path, spare_queue: spares::Open) -> Keeper {
        let alias = alias(forwarder_socket);
        let (wrong, settled, ruled) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let spares = spares::Spares::new(spare_queue);
        Keeper { alias, swept: None, wrong, settled, ruled, spares }
    }

    /// Looks, and fixes, until dropped.
    pub async fn keep(mut self, line: &Line) {
        loop {
            self.spares.let_go();
            if line.in_sync()
                && let Some(configuration) = line.configuration()
            {
                self.fix(&configuration).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn fix(&mut self, configuration: &Configuration) {
        let desired = desired::namespaces(&configuration.desired);
        self.spares.keep_only(&desired.keys().map(String::as_str).collect());
        for (name, namespace) in &desired {
            let settled = self.settled.remove(name);
            match self.fix_one(name, namespace, settled.as_ref()).await {
                Ok(settled) => {
                    self.settled.insert(name.clone(), settled);
                    if self.wrong.remove(name).is_some() {
                        tracing::info!(
                            namespace = name,
                            "host interfaces have their addresses and routes"
                        );
                    }
                }
                Err(reason) => self.say(name, reason),
            }
        }
        let devices: Vec<(String, String)> = desired
            .iter()
            .flat_map(|(name, it)| it.devices.keys().map(|device| (name.clone(), device.clone())))
            .collect();
        if self.swept.as_ref() != Some(&devices) {
            self.sweep(&desired).await;
            self.swept = Some(devices);
        }
        self.fix_rules(configuration, &desired).await;
    }

    /// Gives each namespace the rules of the configuration, and takes them back where there is no host interface any more.
    async fn fix_rules(
        &mut self,
        configuration: &Configuration,
        desired: &BTreeMap<String, Namespace>,
    ) {
        let former = self.ruled.keys().filter(|name| !desired.contains_key(*name)).cloned();
        for name in former.collect::<Vec<_>>() {
            // What could not be taken out is tried again, for as long as there is such a namespace.
            let is_done = match rules::fix(&name, &self.alias, &BTreeSet::new()).await {
                Ok(fixed) => fixed.is_bare,
                Err(_) => inside::identity(&name).is_none(),
            };
            if is_done {
                self.ruled.remove(&name);
            }
        }
        for name in desired.keys() {
            let (rules, not_imported) = rules::desired(configuration, name);
            // A namespace that never had any is looked at once: a controller before us may have left some.
            let is_settled = |it: &Ruled| it.is_bare && it.not_imported == not_imported;
            if !rules.is_empty() || !self.ruled.get(name).is_some_and(is_settled) {
                self.fix_rules_of(name, rules, not_imported).await;
            }
        }
    }

    /// Gives one namespace the rules that it can have, and says why it does not have the others.
    async fn fix_rules_of(
        &mut self,
        name: &str,
        mut rules: BTreeSet<message::Rule>,
        mut not_imported: Vec<String>,
    ) {
        let former = self.ruled.remove(name).unwrap_or_default();
        let mut ruled = Ruled { impossible: former.impossible, ..Ruled::default() };
        ruled.impossible.retain(|rule| rules.contains(rule));
        rules.retain(|rule| !ruled.impossible.contains(rule));
        match rules::fix(name, &self.alias, &rules).await {
            Ok(fixed) => {
                ruled.is_bare = fixed.is_bare && ruled.impossible.is_empty();
                ruled.impossible.extend(fixed.impossible);
                not_imported.extend(fixed.refused);
            }
            Err(error) => not_imported.push(error.to_string()),
        }
        not_imported.extend(ruled.impossible.iter().map(rules::impossible));
        for reason in not_imported.iter().filter(|reason| !former.not_imported.contains(reason)) {
            tracing::warn!(namespace = name, "a rule is not shown in Linux: {reason}");
        }
        ruled.not_imported = not_imported;
        self.ruled.insert(name.to_owned(), ruled);
    }

    async fn fix_one(
        &mut self,
        name: &str,
        desired: &Namespace,
        settled: Option<&namespace::Settled>,
    ) -> Result<namespace::Settled, String> {
        let identity = inside::identity(name);
        let linux = Linux::enter(name).map_err(|error| error.to_string())?;
        let devices = linux.devices(&self.alias).await.map_err(|error| error.to_string())?;
        // Whatever is wrong with another host interface, or with an address.
        self.spares.hold(name, identity, &desired.numbers(&devices));
        linux.fix(desired, devices, settled).await.map_err(|error| error.to_string())
    }

    fn say(&mut self, name: &str, reason: String) {
        if self.wrong.get(name) != Some(&reason) {
            let place = if name.is_empty() { "our own" } else { name };
            tracing::warn!("host interfaces in network namespace {place}: {reason}; trying again");
            self.wrong.insert(name.to_owned(), reason);
        }
    }

    /// Removes our devices that nobody wants: of a forwarder that was killed before it was told.
    async fn sweep(&self, desired: &BTreeMap<String, Namespace>) {
        let mut names = vec![String::new()];
        let entries = std::fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
        names.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        for name in names {
            // A namespace that cannot be entered holds nothing that we could sweep.
            let Ok(linux) = Linux::enter(&name) else { continue };
            let known = desired.get(&name);
            match linux.sweep(known, &self.alias).await {
                Ok(0) => {}
                Ok(count) => {
                    tracing::info!(namespace = name, count, "stale host interfaces removed")
                }
                Err(error) => {
                    tracing::warn!(namespace = name, %error, "stale host interfaces stay")
                }
            }
        }
    }
}
