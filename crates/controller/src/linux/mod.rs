//! The Linux side: the devices of host interfaces get the addresses of their interfaces and the routes
//! through them, each in its network namespace. No other module uses netlink.
//!
//! The forwarder creates the devices and maintains MAC address, MTU and link state; this module configures
//! what programs see above them. Everything that it adds carries Stoa's protocol number, so that what is no
//! longer desired is found and removed (mark and sweep), and the settings of others remain.

mod desired;
pub mod devices;
pub mod fpm;
mod host_paths;
pub mod kernel_configuration;
pub mod message;
mod namespace;
pub mod netns;
pub mod peer;
pub mod routes;
pub mod rules;
#[allow(unsafe_code)]
pub mod saved_syn;
pub(crate) mod shared_namespaces;
pub mod socket;
pub mod spare_queues;
pub mod translate;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use desired::Namespace;
use namespace::NamespaceHandle;

/// Interval of reconciliation: devices come and go, and Linux removes their routes with them.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before a namespace that could not be entered is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The alias of the devices that the forwarder on that socket creates.
pub fn alias(forwarder_socket: &Path) -> String {
    // The forwarder sets the same alias.
    format!("stoa host interface of {}", forwarder_socket.display())
}

/// The environment of a route source: a network namespace with host interfaces of ours.
#[derive(Clone, Debug)]
pub struct NamespaceContext {
    /// The namespace; "" is the controller's own.
    pub netns: String,
    /// The alias of our devices.
    pub alias: String,
    /// Provides the configuration in force.
    pub connection: Arc<ForwarderConnection>,
}

impl NamespaceContext {
    /// Identifies the namespace, so that a new one of the same name is recognized; `None`: it does not exist.
    pub fn identity(&self) -> Option<(u64, u64)> {
        netns::identity(&self.netns)
    }
}

/// Reconciles addresses and routes of all host interfaces, forever.
#[derive(Debug)]
pub struct Reconciler {
    /// The alias of our devices.
    alias: String,
    /// The devices that were desired at the last sweep.
    last_swept: Option<Vec<(String, String)>>,
    /// The last error of each namespace: logged once.
    last_errors: BTreeMap<String, String>,
    /// The state of each namespace after its routes were last reconciled.
    synced: BTreeMap<String, namespace::SyncedState>,
    /// The rules of each namespace, and those that it cannot have: logged once.
    namespace_rules: BTreeMap<String, NamespaceRules>,
    /// Open queues of the devices, so that devices keep their carrier when the forwarder is killed.
    spare_queues: spare_queues::SpareQueues,
}

/// Rules of the configuration in one namespace.
#[derive(Debug, Default)]
struct NamespaceRules {
    /// Whether none of our rules is there, and none is desired.
    is_empty: bool,
    /// Rules that the kernel cannot represent: not tried again.
    unsupported: BTreeSet<message::Rule>,
    skipped: Vec<String>,
}

impl Reconciler {
    /// For host interfaces of the forwarder on that socket; `spare_queue` opens queues of their devices.
    pub fn new(forwarder_socket: &Path, spare_queue: spare_queues::OpenQueue) -> Reconciler {
        let alias = alias(forwarder_socket);
        let (last_errors, synced, namespace_rules) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let spare_queues = spare_queues::SpareQueues::new(spare_queue);
        Reconciler { alias, last_swept: None, last_errors, synced, namespace_rules, spare_queues }
    }

    /// Reconciles until dropped.
    pub async fn run(mut self, connection: &ForwarderConnection) {
        loop {
            self.spare_queues.close_stale();
            if connection.in_sync()
                && let Some(configuration) = connection.configuration()
            {
                self.reconcile(&configuration).await;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn reconcile(&mut self, configuration: &Configuration) {
        let desired = desired::namespaces(configuration);
        self.spare_queues.retain_namespaces(&desired.keys().map(String::as_str).collect());
        for (name, namespace) in &desired {
            let synced = self.synced.remove(name);
            match self.reconcile_namespace(name, namespace, synced.as_ref()).await {
                Ok(synced) => {
                    self.synced.insert(name.clone(), synced);
                    if self.last_errors.remove(name).is_some() {
                        tracing::info!(
                            namespace = name,
                            "host interfaces have their addresses and routes"
                        );
                    }
                }
                Err(reason) => self.log_error(name, reason),
            }
        }
        let devices: Vec<(String, String)> = desired
            .iter()
            .flat_map(|(name, it)| it.devices.keys().map(|device| (name.clone(), device.clone())))
            .collect();
        if self.last_swept.as_ref() != Some(&devices) {
            self.sweep(&desired).await;
            self.last_swept = Some(devices);
        }
        self.reconcile_rules(configuration, &desired).await;
    }

    /// Adds the rules of the configuration to each namespace, and removes them where there is no host
    /// interface any more.
    async fn reconcile_rules(
        &mut self,
        configuration: &Configuration,
        desired: &BTreeMap<String, Namespace>,
    ) {
        let former =
            self.namespace_rules.keys().filter(|name| !desired.contains_key(*name)).cloned();
        for name in former.collect::<Vec<_>>() {
            // Failed removals are tried again while the namespace exists.
            let is_removed = match rules::reconcile(&name, &self.alias, &BTreeSet::new()).await {
                Ok(result) => result.is_empty,
                Err(_) => netns::identity(&name).is_none(),
            };
            if is_removed {
                self.namespace_rules.remove(&name);
            }
        }
        for name in desired.keys() {
            let (rules, skipped) = rules::export(configuration, name);
            // A namespace without rules is checked once: a previous controller may have left some.
            let is_done = |it: &NamespaceRules| it.is_empty && it.skipped == skipped;
            if !rules.is_empty() || !self.namespace_rules.get(name).is_some_and(is_done) {
                self.reconcile_rules_in(name, rules, skipped).await;
            }
        }
    }

    /// Adds the rules that one namespace can have, and logs why it lacks the others.
    async fn reconcile_rules_in(
        &mut self,
        name: &str,
        mut rules: BTreeSet<message::Rule>,
        mut skipped: Vec<String>,
    ) {
        let former = self.namespace_rules.remove(name).unwrap_or_default();
        let mut namespace_rules =
            NamespaceRules { unsupported: former.unsupported, ..NamespaceRules::default() };
        namespace_rules.unsupported.retain(|rule| rules.contains(rule));
        rules.retain(|rule| !namespace_rules.unsupported.contains(rule));
        match rules::reconcile(name, &self.alias, &rules).await {
            Ok(result) => {
                namespace_rules.is_empty =
                    result.is_empty && namespace_rules.unsupported.is_empty();
                namespace_rules.unsupported.extend(result.unsupported);
                skipped.extend(result.errors);
            }
            Err(error) => skipped.push(error.to_string()),
        }
        skipped.extend(namespace_rules.unsupported.iter().map(rules::unsupported_reason));
        for reason in skipped.iter().filter(|reason| !former.skipped.contains(reason)) {
            tracing::warn!(namespace = name, "a policy rule was not added to Linux: {reason}");
        }
        namespace_rules.skipped = skipped;
        self.namespace_rules.insert(name.to_owned(), namespace_rules);
    }

    async fn reconcile_namespace(
        &mut self,
        name: &str,
        desired: &Namespace,
        synced: Option<&namespace::SyncedState>,
    ) -> Result<namespace::SyncedState, String> {
        let identity = netns::identity(name);
        let handle = NamespaceHandle::open(name).map_err(|error| error.to_string())?;
        let devices = handle.devices(&self.alias).await.map_err(|error| error.to_string())?;
        // Even if another host interface or an address has an error.
        self.spare_queues.open_for(name, identity, &desired.indices(&devices));
        handle.reconcile(desired, devices, synced).await.map_err(|error| error.to_string())
    }

    fn log_error(&mut self, name: &str, reason: String) {
        if self.last_errors.get(name) != Some(&reason) {
            let namespace = if name.is_empty() { "our own" } else { name };
            tracing::warn!(
                "host interfaces in network namespace {namespace}: {reason}; trying again"
            );
            self.last_errors.insert(name.to_owned(), reason);
        }
    }

    /// Removes our devices that are no longer desired: those of a forwarder that was killed before it could.
    async fn sweep(&self, desired: &BTreeMap<String, Namespace>) {
        let mut names = vec![String::new()];
        let entries = std::fs::read_dir(netns::DIRECTORY).into_iter().flatten().flatten();
        names.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let places: Vec<(Place<'_>, &Namespace)> =
            desired.iter().map(|(name, it)| ((name.as_str(), netns::identity(name)), it)).collect();
        for name in names {
            // A namespace that cannot be entered has nothing to sweep.
            let Ok(handle) = NamespaceHandle::open(&name) else { continue };
            let known = devices_in((&name, netns::identity(&name)), &places);
            match handle.sweep(&known, &self.alias).await {
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

/// A name of a network namespace, and its identity, if it exists.
type Place<'a> = (&'a str, Option<(u64, u64)>);

/// The desired devices of a namespace. It may have several names: the one in which Stoa runs may have a name, too.
fn devices_in<'a>(
    (name, identity): Place<'_>,
    desired: &[(Place<'_>, &'a Namespace)],
) -> BTreeSet<&'a str> {
    let is_same = |other: &Place<'_>| other.0 == name || identity.is_some() && other.1 == identity;
    let same = desired.iter().filter(|(other, _)| is_same(other));
    same.flat_map(|(_, namespace)| namespace.devices.keys().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_two_names_keeps_the_devices_of_both() {
        let of = |device: &str| {
            let devices = [(device.to_owned(), desired::Device::default())];
            Namespace { devices: devices.into(), ..Namespace::default() }
        };
        let (own, named, blue, gone) = (of("lan"), of("wan"), of("x"), of("y"));
        // Stoa runs in "red".
        let red = Some((4, 1));
        let desired = [
            (("", red), &own),
            (("red", red), &named),
            (("blue", Some((4, 2))), &blue),
            (("gone", None), &gone),
        ];
        let devices = |name, identity| Vec::from_iter(devices_in((name, identity), &desired));
        assert_eq!(devices("", red), ["lan", "wan"]);
        assert_eq!(devices("red", red), ["lan", "wan"]);
        assert_eq!(devices("another name of red", red), ["lan", "wan"]);
        assert_eq!(devices("blue", Some((4, 2))), ["x"]);
        assert_eq!(devices("gone", None), ["y"]);
        assert_eq!(devices("other", None), [""; 0]);
    }
}
