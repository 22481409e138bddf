//! Hosts around a router: each in its own namespace, connected to the router's namespace by a veth pair.

use std::net::IpAddr;
use std::time::Duration;

use crate::vlan::{self, Tagged};
use crate::{Address, Command, LabError, Namespace, Result, Tool, wait_until};

pub use crate::vlan::Tag;

/// The host's end of every link.
const ETH: &str = "eth0";

/// One side of the router: a host and the link to it.
#[derive(Clone, Debug)]
pub struct Side {
    /// Name of the host and of the router's device towards it; at most 9 bytes, so that a VLAN device's name also
    /// fits.
    pub label: String,
    /// VLAN tags of the frames on the link, outermost first; the host adds and removes them.
    pub tags: Vec<Tag>,
    /// Addresses of the host, each with the router's address in the same prefix, the host's default gateway.
    pub addresses: Vec<(Address, Address)>,
    /// MTU of both ends of the link, in bytes of the IP packet.
    pub mtu: u16,
    /// Whether the host offloads checksums and segmentation, as Linux does by default. A link between namespaces has
    /// no card, so frames of up to 64 KiB with partial checksums are on the link.
    pub offloads: bool,
    /// Receive and transmit queues of both ends of the link.
    pub queues: u8,
}

impl Side {
    /// An untagged side with MTU 1500 and offloads; `addresses` as `("198.18.1.2/24", "198.18.1.1/24")`, the host's
    /// first.
    ///
    /// # Errors
    ///
    /// A malformed address.
    pub fn new(label: &str, addresses: &[(&str, &str)]) -> Result<Self> {
        let addresses = addresses
            .iter()
            .map(|(host, router)| Ok((host.parse()?, router.parse()?)))
            .collect::<Result<_>>()?;
        let label = label.to_owned();
        Ok(Self { label, tags: Vec::new(), addresses, mtu: 1500, offloads: true, queues: 1 })
    }

    /// The same side with these tags on the wire, outermost first.
    #[must_use]
    pub fn tagged(mut self, tags: &[Tag]) -> Self {
        self.tags = tags.to_vec();
        self
    }

    /// The same side with this MTU.
    #[must_use]
    pub fn mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// The same side with this many queues at both ends of the link.
    #[must_use]
    pub fn queues(mut self, queues: u8) -> Self {
        self.queues = queues;
        self
    }

    /// The same side with a host without offloads, as if connected to a plain network card.
    #[must_use]
    pub fn without_offloads(mut self) -> Self {
        self.offloads = false;
        self
    }
}

/// A host: a namespace with one interface, `eth0`.
#[derive(Debug)]
pub struct Host {
    side: Side,
    // Declared before the namespace: the BPF programs are detached while their device still exists.
    _tagged: Option<Tagged>,
    namespace: Namespace,
}

impl Host {
    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its name, which is also that of the router's device towards it.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.side.label
    }

    /// The side of the router that the host is on.
    #[must_use]
    pub fn side(&self) -> &Side {
        &self.side
    }

    /// Its first address of a family.
    ///
    /// # Errors
    ///
    /// [`LabError::ParseFailed`] when it has none.
    pub fn address(&self, six: bool) -> Result<IpAddr> {
        self.pair(six).map(|(host, _)| host.ip)
    }

    /// The router's address on its link, of a family.
    ///
    /// # Errors
    ///
    /// [`LabError::ParseFailed`] when there is none.
    pub fn gateway(&self, six: bool) -> Result<IpAddr> {
        self.pair(six).map(|(_, router)| router.ip)
    }

    fn pair(&self, six: bool) -> Result<(Address, Address)> {
        let found = self.side.addresses.iter().find(|(host, _)| host.ip.is_ipv6() == six);
        found.copied().ok_or_else(|| LabError::ParseFailed {
            what: format!("the IPv{} address of {}", if six { 6 } else { 4 }, self.side.label),
            reason: "it has none".to_owned(),
        })
    }

    /// A command to run on this host.
    ///
    /// # Errors
    ///
    /// [`LabError::ToolMissing`] when the tool is not installed.
    pub fn command(&self, tool: Tool) -> Result<Command> {
        self.namespace.command(tool)
    }

    /// The MAC address of its interface, as text.
    ///
    /// # Errors
    ///
    /// The interface is gone.
    pub fn mac(&self) -> Result<String> {
        mac(&self.namespace, ETH)
    }

    fn new(side: &Side, router: &Namespace) -> Result<Self> {
        let namespace = Namespace::new(&side.label)?;
        // The kernel allows one customer tag beyond a device's MTU; for other tags, the MTU is increased.
        let free = usize::from(side.tags.first().is_some_and(|tag| tag.tpid == 0x8100));
        let room = 4 * u16::try_from(side.tags.len() - free).unwrap_or(0);
        let (label, mtu, queues) =
            (side.label.as_str(), (side.mtu + room).to_string(), side.queues.to_string());
        let end = ["mtu", &mtu, "numrxqueues", &queues, "numtxqueues", &queues];
        let peer = ["type", "veth", "peer", "name", ETH, "netns", namespace.name()];
        router.ip(&[&["link", "add", label][..], &end, &peer, &end].concat())?;
        // The router's device must not send by itself: no address, no neighbour discovery by the kernel.
        router.sysctl(&format!("ipv6/conf/{label}/disable_ipv6"), "1")?;
        namespace.ip(&["link", "set", ETH, "up"])?;
        router.ip(&["link", "set", label, "up"])?;
        if !side.offloads {
            let off = ["-K", ETH, "tx", "off", "tso", "off", "gso", "off"];
            namespace.command(Tool::ETHTOOL)?.args(off).run()?.ok()?;
        }
        let tagged = match side.tags.as_slice() {
            [] => None,
            tags => Some(vlan::tag(&namespace, ETH, tags)?),
        };
        for (host, gateway) in &side.addresses {
            namespace.ip(&["addr", "add", &host.to_string(), "dev", ETH])?;
            let family = if host.ip.is_ipv6() { "-6" } else { "-4" };
            let via = gateway.ip.to_string();
            let mtu = side.mtu.to_string();
            namespace.ip(&[family, "route", "add", "default", "via", &via, "mtu", &mtu])?;
        }
        Ok(Self { side: side.clone(), _tagged: tagged, namespace })
    }
}

/// A router's namespace and the hosts around it, without a router process.
#[derive(Debug)]
pub struct Topology {
    hosts: Vec<Host>,
    router: Namespace,
}

impl Topology {
    /// Creates the namespaces and the links between them.
    ///
    /// # Errors
    ///
    /// No root privileges, missing tools, or an error of the kernel.
    pub fn new(sides: &[Side]) -> Result<Self> {
        let router = Namespace::new("router")?;
        let hosts: Vec<Host> =
            sides.iter().map(|side| Host::new(side, &router)).collect::<Result<_>>()?;
        // The kernel reports a new link's carrier up to a second late.
        wait_until("the links are up", Duration::from_secs(10), || {
            let links = router.ip(&["-o", "link"]).map_err(|error| error.to_string())?;
            let up = links.matches("state UP").count();
            if up == hosts.len() { Ok(()) } else { Err(links) }
        })?;
        Ok(Self { hosts, router })
    }

    /// The namespace for the router; its devices have the names of the hosts.
    #[must_use]
    pub fn router(&self) -> &Namespace {
        &self.router
    }

    /// The hosts in the order of the sides.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of this name.
    ///
    /// # Panics
    ///
    /// There is no such host: an error in the scenario.
    #[must_use]
    pub fn host(&self, label: &str) -> &Host {
        let found = self.hosts.iter().find(|host| host.label() == label);
        found.unwrap_or_else(|| panic!("this topology has no host `{label}`"))
    }

    /// Deletes a host with its link and creates both again: another device of the same name, with another MAC
    /// address.
    ///
    /// # Errors
    ///
    /// There is no such host, or the kernel returns an error.
    pub fn recreate(&mut self, label: &str) -> Result<()> {
        let found = self.hosts.iter().position(|host| host.label() == label);
        let at = found.ok_or_else(|| LabError::ParseFailed {
            what: format!("the host {label}"),
            reason: "there is none".to_owned(),
        })?;
        let side = self.hosts.remove(at).side.clone();
        // The kernel deletes a namespace and its devices in the background.
        wait_until("the old link is gone", Duration::from_secs(10), || {
            let links = self.router.ip(&["-o", "link"]).map_err(|error| error.to_string())?;
            if links.contains(&format!(" {label}@")) { Err(links) } else { Ok(()) }
        })?;
        self.hosts.insert(at, Host::new(&side, &self.router)?);
        Ok(())
    }

    /// The MAC address of the router's device towards a host, as text.
    ///
    /// # Errors
    ///
    /// There is no such device.
    pub fn router_mac(&self, label: &str) -> Result<String> {
        mac(&self.router, label)
    }
}

/// The Linux kernel as the router of a topology: the baseline.
#[derive(Debug)]
pub struct Linux {
    _tagged: Vec<Tagged>,
}

impl Linux {
    /// Configures addresses and tags in the router's namespace and enables forwarding in the kernel.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub fn start(topology: &Topology) -> Result<Self> {
        let router = topology.router();
        let mut tagged = Vec::new();
        for host in topology.hosts() {
            let label = host.label();
            router.sysctl(&format!("ipv6/conf/{label}/disable_ipv6"), "0")?;
            if !host.side.tags.is_empty() {
                tagged.push(vlan::tag(router, label, &host.side.tags)?);
            }
            for (_, address) in &host.side.addresses {
                router.ip(&["addr", "add", &address.to_string(), "dev", label])?;
            }
        }
        router.sysctl("ipv4/ip_forward", "1")?;
        router.sysctl("ipv6/conf/all/forwarding", "1")?;
        Ok(Self { _tagged: tagged })
    }
}

fn mac(namespace: &Namespace, device: &str) -> Result<String> {
    let printed = namespace.ip(&["-o", "link", "show", "dev", device])?;
    let mut words = printed.split_whitespace();
    let found = words.by_ref().find(|word| *word == "link/ether").and_then(|_| words.next());
    found.map(str::to_owned).ok_or_else(|| LabError::ParseFailed {
        what: format!("the MAC address of {device}"),
        reason: printed.clone(),
    })
}
