//! Imports the configuration that Linux's tools (`ip addr`, `ip link`, `ip neigh`, `ip rule`) set on host
//! interfaces.
//!
//! A task monitors each namespace with host interfaces. A notification only triggers a new read of all
//! devices, addresses, neighbours and rules, so that a lost notification costs one more read at most.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::devices::host_interfaces;
use super::message::{Address, FAMILY_ANY, Link, Neighbor, RTPROT_STOA, Rule, kind};
use super::socket::{self, Socket, group, is_lost};
use super::{NamespaceContext, RETRY_DELAY, rules};
use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use crate::kernel_configuration::{InterfaceSettings, KernelConfiguration};

/// Delay after a notification, so that several are processed together.
const COALESCE: Duration = Duration::from_millis(50);
/// Minimum pause after a read, as a multiple of its duration.
const POLL_PAUSE_FACTOR: u32 = 5;
/// Interval of reads without notifications: the namespace may have been replaced.
const NETNS_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long a device must be down before it counts as set down: a new device is down for a moment.
const MIN_DOWN_TIME: Duration = Duration::from_millis(300);
/// Time limit of the first read at the start, before anything is sent to the forwarder.
const INITIAL_READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Receive buffer for notifications, bytes.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Maximum entries of each kind per namespace.
const MAX_ENTRIES: usize = 4_096;
/// Snapshots of namespaces that may be queued.
const SNAPSHOT_QUEUE: usize = 16;

/// The kernel configuration of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NamespaceSnapshot {
    /// Settings by device.
    devices: BTreeMap<String, InterfaceSettings>,
    /// Rules that are neither default rules nor ours.
    rules: Vec<Rule>,
}

/// Applies the kernel configuration.
#[derive(Debug)]
pub struct Monitor {
    alias: String,
    connection: Arc<ForwarderConnection>,
    namespaces: BTreeMap<String, MonitoredNamespace>,
    sender: mpsc::Sender<(String, NamespaceSnapshot)>,
    snapshots: mpsc::Receiver<(String, NamespaceSnapshot)>,
    /// Rules that are not imported: logged once.
    rejected: BTreeSet<String>,
}

#[derive(Debug)]
struct MonitoredNamespace {
    snapshot: NamespaceSnapshot,
    task: JoinHandle<()>,
}

impl Drop for MonitoredNamespace {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Monitor {
    /// For host interfaces with that alias.
    pub fn new(alias: String, connection: Arc<ForwarderConnection>) -> Monitor {
        let (sender, snapshots) = mpsc::channel(SNAPSHOT_QUEUE);
        let (namespaces, rejected) = (BTreeMap::new(), BTreeSet::new());
        Monitor { alias, connection, namespaces, sender, snapshots, rejected }
    }

    /// Reads the kernel configuration at the start: a restarted controller must not undo it.
    pub async fn read_initial(&mut self) {
        for netns in self.monitored_namespaces() {
            let read_namespace = async {
                let mut requests = Socket::open(&netns, 0, socket::BUFFER_SIZE)?;
                read_namespace(&mut requests, &self.alias).await
            };
            if let Ok(Ok(snapshot)) = timeout(INITIAL_READ_TIMEOUT, read_namespace).await {
                let task = tokio::spawn(async {});
                self.namespaces.insert(netns, MonitoredNamespace { snapshot, task });
            }
        }
        let kernel_configuration = self.kernel_configuration();
        self.connection.set_initial_kernel_configuration(kernel_configuration);
    }

    /// Applies changes until dropped.
    pub async fn run(mut self) {
        let mut changes = self.connection.changes();
        loop {
            let namespaces = self.monitored_namespaces();
            self.namespaces.retain(|netns, _| namespaces.contains(netns));
            for netns in namespaces {
                let is_monitored =
                    self.namespaces.get(&netns).is_some_and(|it| !it.task.is_finished());
                if !is_monitored {
                    let context = NamespaceContext {
                        netns: netns.clone(),
                        alias: self.alias.clone(),
                        connection: Arc::clone(&self.connection),
                    };
                    let snapshot = self
                        .namespaces
                        .remove(&netns)
                        .map(|mut it| std::mem::take(&mut it.snapshot));
                    let task = tokio::spawn(monitor(context, self.sender.clone()));
                    self.namespaces.insert(
                        netns,
                        MonitoredNamespace { snapshot: snapshot.unwrap_or_default(), task },
                    );
                }
            }
            let kernel_configuration = self.kernel_configuration();
            self.connection.apply_kernel_configuration(kernel_configuration).await;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                snapshot = self.snapshots.recv() => {
                    if let Some((netns, snapshot)) = snapshot
                        && let Some(monitored) = self.namespaces.get_mut(&netns)
                    {
                        monitored.snapshot = snapshot;
                    }
                }
            }
        }
    }

    /// The namespaces that have host interfaces.
    fn monitored_namespaces(&self) -> Vec<String> {
        self.connection.with_configuration(|configuration| {
            let interfaces = configuration.into_iter().flat_map(|it| it.interfaces.iter());
            let hosts = interfaces.filter_map(|it| it.host_interface.as_ref());
            let mut all: Vec<String> = hosts.map(|it| it.netns.clone()).collect();
            all.sort();
            all.dedup();
            all
        })
    }

    /// Settings by interface, and rules. Logs which rules are not imported.
    fn kernel_configuration(&mut self) -> KernelConfiguration {
        let mut kernel_configuration = KernelConfiguration::default();
        let mut rejected = BTreeSet::new();
        for (netns, monitored) in &self.namespaces {
            let host_interfaces: HashMap<String, Arc<str>> =
                self.connection.with_configuration(|configuration| {
                    let all = configuration.map(|it| host_interfaces(&it.interfaces, netns));
                    all.unwrap_or_default()
                });
            for (device, settings) in &monitored.snapshot.devices {
                if let Some(interface) =
                    host_interfaces.get(device).filter(|_| !settings.is_empty())
                {
                    kernel_configuration.interfaces.insert(interface.to_string(), settings.clone());
                }
            }
            let all = &monitored.snapshot.rules;
            let settings = |it: &Configuration| rules::import(all, it, netns);
            let (imported, rejected_here) =
                self.connection.with_configuration(|it| it.map(settings)).unwrap_or_default();
            kernel_configuration.rules.extend(imported);
            rejected.extend(rejected_here);
        }
        for reason in rejected.difference(&self.rejected) {
            tracing::warn!("a policy rule of Linux was not imported: {reason}");
        }
        self.rejected = rejected;
        kernel_configuration
    }
}

/// Monitors one namespace, forever.
async fn monitor(context: NamespaceContext, sender: mpsc::Sender<(String, NamespaceSnapshot)>) {
    loop {
        match monitor_until_error(&context, &sender).await {
            // The receiver is gone.
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(netns = context.netns, %error, "cannot monitor host interfaces")
            }
        }
        sleep(RETRY_DELAY).await;
    }
}

async fn monitor_until_error(
    context: &NamespaceContext,
    sender: &mpsc::Sender<(String, NamespaceSnapshot)>,
) -> io::Result<()> {
    let namespace_id = context.identity();
    let groups = group::LINKS | group::ADDRESSES | group::NEIGHBORS | group::RULES;
    let notifications = Socket::open(&context.netns, groups, RECEIVE_BUFFER)?;
    let mut requests = Socket::open(&context.netns, 0, socket::BUFFER_SIZE)?;
    let mut buffer = vec![0; socket::BUFFER_SIZE];
    let mut last = None;
    // Since when devices are down.
    let mut down: HashMap<String, Instant> = HashMap::new();
    loop {
        let began = Instant::now();
        let mut current = read_namespace(&mut requests, &context.alias).await?;
        let duration = began.elapsed();
        let mut is_settling = false;
        down.retain(|device, _| current.devices.get(device).is_some_and(|it| it.is_down));
        for (device, settings) in current.devices.iter_mut().filter(|(_, it)| it.is_down) {
            let since = *down.entry(device.clone()).or_insert(began);
            settings.is_down = since.elapsed() >= MIN_DOWN_TIME;
            is_settling |= !settings.is_down;
        }
        if last.as_ref() != Some(&current) {
            if sender.send((context.netns.clone(), current.clone())).await.is_err() {
                return Ok(());
            }
            last = Some(current);
        }
        let pause = if is_settling { MIN_DOWN_TIME } else { NETNS_CHECK_INTERVAL };
        match timeout(pause, notifications.receive(&mut buffer)).await {
            Ok(Err(error)) if !is_lost(&error) => return Err(error),
            // A notification or an overrun: read everything.
            Ok(_) => sleep(COALESCE.max(duration * POLL_PAUSE_FACTOR)).await,
            Err(_) => {}
        }
        // Discard what arrived meanwhile: the next read covers it, lost or not.
        while notifications.receive_now(&mut buffer).is_ok_and(|length| length > 0) {}
        if context.identity() != namespace_id {
            return Err(io::Error::other("the network namespace was replaced"));
        }
    }
}

/// Reads the settings of our devices.
async fn read_namespace(requests: &mut Socket, alias: &str) -> io::Result<NamespaceSnapshot> {
    let mut buffer = vec![0; socket::BUFFER_SIZE];
    let mut current = NamespaceSnapshot::default();
    let mut names: HashMap<u32, String> = HashMap::new();
    read_dump(requests, kind::GET_LINK, 16, &mut buffer, |body| {
        if let Ok(link) = Link::read(body)
            && link.alias == alias
        {
            names.insert(link.index, link.name.to_owned());
            let settings =
                InterfaceSettings { is_down: !link.is_up, ..InterfaceSettings::default() };
            current.devices.insert(link.name.to_owned(), settings);
        }
    })
    .await?;
    let settings = &mut current.devices;
    read_dump(requests, kind::GET_ADDRESS, 8, &mut buffer, |body| {
        let Ok(address) = Address::read(body) else { return };
        let Some(device) = names.get(&address.device).and_then(|name| settings.get_mut(name))
        else {
            return;
        };
        if is_foreign_address(&address)
            && device.addresses.len() < MAX_ENTRIES
            && let Ok(net) = IpNet::new(address.address, address.length)
        {
            device.addresses.insert(net);
        }
    })
    .await?;
    read_dump(requests, kind::GET_NEIGHBOR, 12, &mut buffer, |body| {
        let Ok(Some(neighbor)) = Neighbor::read(body) else { return };
        let Some(device) = names.get(&neighbor.device).and_then(|name| settings.get_mut(name))
        else {
            return;
        };
        if let Some(mac) = neighbor.mac.filter(|mac| neighbor.is_permanent && mac[0] & 1 == 0)
            && device.neighbors.len() < MAX_ENTRIES
        {
            device.neighbors.insert(neighbor.address, mac);
        }
    })
    .await?;
    let is_foreign = |rule: &Rule| rule.protocol != RTPROT_STOA && !rule.is_default();
    current.rules =
        rules::read_all(requests).await?.into_iter().filter(is_foreign).take(MAX_ENTRIES).collect();
    Ok(current)
}

/// Whether a user added the address: neither we nor the kernel itself (`IFAPROT_KERNEL_*`: 1 to 3).
fn is_foreign_address(address: &Address) -> bool {
    let is_link_local = match address.address {
        std::net::IpAddr::V6(six) => six.is_unicast_link_local(),
        std::net::IpAddr::V4(_) => false,
    };
    address.protocol != RTPROT_STOA
        && !(1..=3).contains(&address.protocol)
        && !is_link_local
        && !address.is_duplicate
}

/// Passes each message of a dump to `handle`. `header` zero bytes request all.
async fn read_dump(
    requests: &mut Socket,
    kind: u16,
    header: usize,
    buffer: &mut [u8],
    mut handle: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut body = vec![0; header];
    body[0] = FAMILY_ANY;
    let mut dump = requests.dump(kind, &body)?;
    while requests.read_dump(&mut dump, buffer, |message| handle(message.body)).await? {}
    Ok(())
}
