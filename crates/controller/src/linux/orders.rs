//! What operators do to host interfaces with `ip addr`, `ip link`, `ip neigh` and `ip rule`, as orders to Stoa.
//!
//! Each namespace with host interfaces is followed by a task of its own. News only say that it is time to look: all devices, addresses,
//! neighbours and rules are read again, so that news that are lost cost nothing but a look more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::devices::host_interfaces;
use super::message::{Address, FAMILY_ANY, Link, Neighbor, Rule, kind};
use super::socket::{self, Socket, group, is_lost};
use super::{MARK, Place, RETRY, rules};
use crate::apply::Line;
use crate::configuration::Configuration;
use crate::overlay::{Orders, Overlay};

/// News that come together are looked at together.
const GATHER: Duration = Duration::from_millis(50);
/// So many times as long as a look took, the next one waits at least.
const REST: u32 = 5;
/// How often is looked without news: whether the namespace is still the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// So long a device has to be down before it is an order: one that is being made is down for a moment.
const DOWN_FOR: Duration = Duration::from_millis(300);
/// How long the first look may take at the start, before anything is sent to the forwarder.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// Bytes of news that may wait.
const ROOM: usize = 1 << 20;
/// Orders of one namespace at most, of each kind.
const LIMIT: usize = 4_096;
/// Looks of namespaces that wait to be heard.
const LOOKS: usize = 16;

/// What was ordered in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Looked {
    /// By device.
    devices: BTreeMap<String, Orders>,
    /// Rules that are neither usual nor ours.
    rules: Vec<Rule>,
}

/// Brings orders into force.
#[derive(Debug)]
pub struct Follower {
    alias: String,
    line: Arc<Line>,
    namespaces: BTreeMap<String, Followed>,
    sender: mpsc::Sender<(String, Looked)>,
    looks: mpsc::Receiver<(String, Looked)>,
    /// Rules that are not followed: said once.
    not_imported: BTreeSet<String>,
}

#[derive(Debug)]
struct Followed {
    looked: Looked,
    task: JoinHandle<()>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// For host interfaces with that alias.
    pub fn new(alias: String, line: Arc<Line>) -> Follower {
        let (sender, looks) = mpsc::channel(LOOKS);
        let (namespaces, not_imported) = (BTreeMap::new(), BTreeSet::new());
        Follower { alias, line, namespaces, sender, looks, not_imported }
    }

    /// What was ordered before we were there: a controller that is started again must not undo it.
    pub async fn begin(&mut self) {
        for netns in self.desired() {
            let look = async {
                let mut asks = Socket::open(&netns, 0, socket::READ)?;
                look(&mut asks, &self.alias).await
            };
            if let Ok(Ok(looked)) = timeout(FIRST_LOOK, look).await {
                let task = tokio::spawn(async {});
                self.namespaces.insert(netns, Followed { looked, task });
            }
        }
        let overlay = self.overlay();
        self.line.order_before_anything(overlay);
    }

    /// Follows orders until dropped.
    pub async fn follow(mut self) {
        let mut changes = self.line.changes();
        loop {
            let desired = self.desired();
            self.namespaces.retain(|netns, _| desired.contains(netns));
            for netns in desired {
                let is_followed =
                    self.namespaces.get(&netns).is_some_and(|it| !it.task.is_finished());
                if !is_followed {
                    let place = Place {
                        netns: netns.clone(),
                        alias: self.alias.clone(),
                        line: Arc::clone(&self.line),
                    };
                    let looked =
                        self.namespaces.remove(&netns).map(|mut it| std::mem::take(&mut it.looked));
                    let task = tokio::spawn(follow(place, self.sender.clone()));
                    self.namespaces
                        .insert(netns, Followed { looked: looked.unwrap_or_default(), task });
                }
            }
            let overlay = self.overlay();
            self.line.order(overlay).await;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                looked = self.looks.recv() => {
                    if let Some((netns, looked)) = looked
                        && let Some(followed) = self.namespaces.get_mut(&netns)
                    {
                        followed.looked = looked;
                    }
                }
            }
        }
    }

    /// The namespaces that have host interfaces.
    fn desired(&self) -> Vec<String> {
        self.line.look(|configuration| {
            let interfaces = configuration.map_or(&[][..], |it| &it.desired.interfaces);
            let netns =
                interfaces.iter().filter_map(|it| Some(it.host_interface.as_ref()?.netns.clone()));
            let mut all: Vec<String> = netns.collect();
            all.sort();
            all.dedup();
            all
        })
    }

    /// Orders by interface, and rules. Says which rules are not followed.
    fn overlay(&mut self) -> Overlay {
        let mut overlay = Overlay::default();
        let mut not_imported = BTreeSet::new();
        for (netns, followed) in &self.namespaces {
            let host_interfaces: HashMap<String, Arc<str>> = self.line.look(|configuration| {
                host_interfaces(configuration.map_or(&[][..], |it| &it.desired.interfaces), netns)
            });
            for (device, orders) in &followed.looked.devices {
                if let Some(interface) =
                    host_interfaces.get(device).filter(|_| !orders.is_nothing())
                {
                    overlay.interfaces.insert(interface.to_string(), orders.clone());
                }
            }
            let all = &followed.looked.rules;
            let orders = |it: &Configuration| rules::orders(all, it, netns);
            let (made, refused) = self.line.look(|it| it.map(orders)).unwrap_or_default();
            overlay.rules.extend(made);
            not_imported.extend(refused);
        }
        for reason in not_imported.difference(&self.not_imported) {
            tracing::warn!("a policy rule of Linux is not followed: {reason}");
        }
        self.not_imported = not_imported;
        overlay
    }
}

/// Follows one namespace for ever.
async fn follow(place: Place, sender: mpsc::Sender<(String, Looked)>) {
    loop {
        match follow_until_it_fails(&place, &sender).await {
            // Nobody listens any more.
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(netns = place.netns, %error, "host interfaces cannot be followed")
            }
        }
        sleep(RETRY).await;
    }
}

async fn follow_until_it_fails(
    place: &Place,
    sender: &mpsc::Sender<(String, Looked)>,
) -> io::Result<()> {
    let home = place.identity();
    let groups = group::LINKS | group::ADDRESSES | group::NEIGHBORS | group::RULES;
    let news = Socket::open(&place.netns, groups, ROOM)?;
    let mut asks = Socket::open(&place.netns, 0, socket::READ)?;
    let mut buffer = vec![0; socket::READ];
    let mut last = None;
    // Since when devices are down.
    let mut down: HashMap<String, Instant> = HashMap::new();
    loop {
        let began = Instant::now();
        let mut seen = look(&mut asks, &place.alias).await?;
        let took = began.elapsed();
        let mut is_early = false;
        down.retain(|device, _| seen.devices.get(device).is_some_and(|it| it.is_down));
        for (device, orders) in seen.devices.iter_mut().filter(|(_, it)| it.is_down) {
            let since = *down.entry(device.clone()).or_insert(began);
            orders.is_down = since.elapsed() >= DOWN_FOR;
            is_early |= !orders.is_down;
        }
        if last.as_ref() != Some(&seen) {
            if sender.send((place.netns.clone(), seen.clone())).await.is_err() {
                return Ok(());
            }
            last = Some(seen);
        }
        let pause = if is_early { DOWN_FOR } else { LOOK_EVERY };
        match timeout(pause, news.receive(&mut buffer)).await {
            Ok(Err(error)) if !is_lost(&error) => return Err(error),
            // News, or too many of them: look at everything.
            Ok(_) => sleep(GATHER.max(took * REST)).await,
            Err(_) => {}
        }
        // What came meanwhile is looked at together; lost or not, it is the same.
        while news.receive_now(&mut buffer).is_ok_and(|length| length > 0) {}
        if place.identity() != home {
            return Err(io::Error::other("the network namespace is another one now"));
        }
    }
}

/// Reads all that there is on our devices.
async fn look(asks: &mut Socket, alias: &str) -> io::Result<Looked> {
    let mut room = vec![0; socket::READ];
    let mut seen = Looked::default();
    let mut names: HashMap<u32, String> = HashMap::new();
    read(asks, kind::GET_LINK, 16, &mut room, |body| {
        if let Ok(link) = Link::read(body)
            && link.alias == alias
        {
            names.insert(link.index, link.name.to_owned());
            let orders = Orders { is_down: !link.is_up, ..Orders::default() };
            seen.devices.insert(link.name.to_owned(), orders);
        }
    })
    .await?;
    let orders = &mut seen.devices;
    read(asks, kind::GET_ADDRESS, 8, &mut room, |body| {
        let Ok(address) = Address::read(body) else { return };
        let Some(of) = names.get(&address.device).and_then(|name| orders.get_mut(name)) else {
            return;
        };
        if is_ordered(&address)
            && of.addresses.len() < LIMIT
            && let Ok(net) = IpNet::new(address.address, address.length)
        {
            of.addresses.insert(net);
        }
    })
    .await?;
    read(asks, kind::GET_NEIGHBOR, 12, &mut room, |body| {
        let Ok(Some(neighbor)) = Neighbor::read(body) else { return };
        let Some(of) = names.get(&neighbor.device).and_then(|name| orders.get_mut(name)) else {
            return;
        };
        if let Some(mac) = neighbor.mac.filter(|mac| neighbor.is_permanent && mac[0] & 1 == 0)
            && of.neighbors.len() < LIMIT
        {
            of.neighbors.insert(neighbor.address, mac);
        }
    })
    .await?;
    let is_order = |rule: &Rule| rule.protocol != MARK && !rule.is_usual();
    seen.rules = rules::list(asks).await?.into_iter().filter(is_order).take(LIMIT).collect();
    Ok(seen)
}

/// Whether somebody has put the address there: neither we nor the kernel by itself (`IFAPROT_KERNEL_*`: 1 to 3).
fn is_ordered(address: &Address) -> bool {
    let is_link_local = match address.address {
        std::net::IpAddr::V6(six) => six.is_unicast_link_local(),
        std::net::IpAddr::V4(_) => false,
    };
    address.protocol != MARK
        && !(1..=3).contains(&address.protocol)
        && !is_link_local
        && !address.is_duplicate
}

/// Gives each message of a list to `take`. `header` bytes of zero ask for all.
async fn read(
    asks: &mut Socket,
    kind: u16,
    header: usize,
    room: &mut [u8],
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut body = vec![0; header];
    body[0] = FAMILY_ANY;
    let mut list = asks.list(kind, &body)?;
    while asks.more(&mut list, room, |message| take(message.body)).await? {}
    Ok(())
}
