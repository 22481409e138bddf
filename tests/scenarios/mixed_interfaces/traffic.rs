//! Sends mixed frames from several hosts at once and checks by tcpdump where each leaves the router, byte by byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirEntry, File};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use nix::unistd::Pid;
use pcap_file::pcap::PcapReader;
use serde_json::Value;
use stoa_lab::{Background, Configuration, Host, Result, Side, Tool, Topology, wait_until};
use stoa_scenarios::{Scenario, pid};

use super::frames::{Frame, Interface, number};

/// Frames between two waits for the router: fewer than a receive ring of a port holds.
const BURST: usize = 512;
const DEADLINE: Duration = Duration::from_secs(5);

/// A frame, where it is sent, and by which interfaces it may leave; by none if the router must drop it.
pub struct Packet {
    pub at: &'static str,
    pub frame: Frame,
    pub leaves_by: Vec<Interface>,
}

/// A router with these interfaces between hosts that do not send anything by themselves.
pub struct Mixture {
    pub scenario: Scenario,
    senders: BTreeMap<&'static str, Sender>,
    macs: BTreeMap<&'static str, [u8; 6]>,
}

impl Mixture {
    /// Starts the router; `change` completes its configuration.
    pub fn begin(
        interfaces: &[Interface],
        change: impl FnOnce(Configuration) -> Configuration,
    ) -> Result<Self> {
        let ports: BTreeSet<&'static str> = interfaces.iter().map(|one| one.port).collect();
        let sides = ports.iter().map(|port| Side::new(port, &[])).collect::<Result<Vec<_>>>()?;
        let plain = Configuration::new(&sides);
        let configuration = interfaces.iter().fold(plain, |made, one| one.add_to(made));
        let topology = Topology::new(&sides)?;
        for port in &ports {
            // Before the router starts: it would receive the MLD reports of a link that comes up.
            topology.host(port).namespace().sysctl("ipv6/conf/eth0/disable_ipv6", "1")?;
        }
        let scenario = Scenario::between(topology, &sides, &change(configuration))?;
        let names: Vec<String> = interfaces.iter().map(Interface::name).collect();
        scenario.router.wait_up(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let (mut senders, mut macs) = (BTreeMap::new(), BTreeMap::new());
        for port in ports {
            senders.insert(port, Sender::open(scenario.host(port))?);
            macs.insert(port, parse_mac(&scenario.topology.router_mac(port)?));
        }
        Ok(Self { scenario, senders, macs })
    }

    /// A packet from one interface's networks to the neighbour of another, of a family.
    pub fn packet(&self, from: &Interface, to: &Interface, six: bool) -> Packet {
        let (source, target) = (from.addresses(9), to.addresses(2));
        let addresses = [source[usize::from(six)], target[usize::from(six)]];
        self.packet_between(from, addresses, &[to])
    }

    /// A packet with these addresses that arrives at one interface and leaves by one of others.
    pub fn packet_between(
        &self,
        from: &Interface,
        addresses: [IpAddr; 2],
        leaves_by: &[&Interface],
    ) -> Packet {
        let (mac, tags) = (self.macs[from.port], from.tags.clone());
        let outer = from.tunnel.map(|tunnel| [tunnel.remote, tunnel.local]);
        let frame = Frame { mac, tags, outer, addresses, port: 1024, hops: 64 };
        let leaves_by = leaves_by.iter().map(|one| (*one).clone()).collect();
        Packet { at: from.port, frame, leaves_by }
    }

    /// Stops all threads of the forwarder.
    fn stop_forwarder(&self) -> Result<Stopped> {
        let pid = pid(&self.scenario.router.status()?, "forwarder");
        let process = Pid::from_raw(i32::try_from(pid).expect("a process id"));
        kill(process, Signal::SIGSTOP).expect("it runs");
        let stopped = Stopped(process);
        wait_until("the forwarder stands still", DEADLINE, || {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
            let state = |thread: std::io::Result<DirEntry>| {
                let file = thread.expect("an entry").path().join("status");
                std::fs::read_to_string(file).unwrap_or_default()
            };
            let running = threads.map(state).filter(|state| !state.contains("State:\tT"));
            match running.count() {
                0 => Ok(()),
                count => Err(format!("{count} threads run")),
            }
        })?;
        Ok(stopped)
    }

    /// Packets and calls of the node that receives frames.
    fn vectors(&self) -> Result<[u64; 2]> {
        let shown = self.scenario.router.show("nodes")?;
        let list = shown["nodes"].as_array().expect("a list");
        let input = list.iter().filter(|node| node["name"] == "ethernet-input");
        let of = |node: &Value, what: &str| node[what].as_u64().expect("a number");
        Ok(input.fold([0, 0], |[packets, calls], node| {
            [packets + of(node, "packets"), calls + of(node, "calls")]
        }))
    }

    /// Packets that the router has received.
    fn received(&self) -> std::result::Result<u64, String> {
        let shown = self.scenario.router.show("conservation").map_err(|error| error.to_string())?;
        shown["received"].as_u64().ok_or_else(|| shown.to_string())
    }

    /// Sends packets burst by burst, at most as fast as the router receives them.
    fn send(&self, packets: &[Packet]) -> Result<()> {
        for (at, burst) in packets.chunks(BURST).enumerate() {
            let received = self.received().expect("the accounting is shown");
            let frames = (at * BURST..).zip(burst).map(|(number, packet)| {
                let number = u32::try_from(number).expect("a few thousand");
                (&self.senders[packet.at], packet.frame.bytes(number))
            });
            let frames: Vec<_> = frames.collect();
            // The forwarder finds them all at once, so that its vectors are full.
            let stopped = self.stop_forwarder()?;
            frames.iter().for_each(|(sender, frame)| sender.send(frame));
            drop(stopped);
            let expected = received + burst.len() as u64;
            wait_until("the router has received the frames", DEADLINE, || {
                let now = self.received()?;
                if now >= expected { Ok(()) } else { Err(format!("{now} of {expected}")) }
            })?;
        }
        Ok(())
    }

    /// Sends all packets in a mixed order. Those that may leave do so once and unchanged except for TTL, tags and MAC
    /// addresses; the others do not, and the drop counters are exactly `drops`. Returns the packets with the port by
    /// which each left.
    pub fn pass(
        &self,
        mut packets: Vec<Packet>,
        drops: &[(&str, u64)],
    ) -> Result<Vec<(Packet, Option<&'static str>)>> {
        mix(&mut packets);
        let ports: Vec<&'static str> = self.senders.keys().copied().collect();
        let open = |port: &&'static str| Capture::begin(&self.scenario, port);
        let captures = ports.iter().map(open).collect::<Result<Vec<_>>>()?;
        let (before, vectors) = (self.drops()?, self.vectors()?);
        self.send(&packets)?;
        let expected = packets.iter().filter(|packet| !packet.leaves_by.is_empty()).count();
        let arrived = wait_until("all frames have left", DEADLINE, || {
            let count: usize = captures.iter().map(|capture| frames(&capture.file).len()).sum();
            if count >= expected { Ok(()) } else { Err(format!("{count} of {expected}")) }
        });
        if let Err(error) = arrived {
            panic!("{error}; dropped: {:?}", self.drops_since(&before)?);
        }
        self.scenario.router.wait_idle()?;
        let now = self.vectors()?;
        let [in_vectors, calls] = [0, 1].map(|at| now[at] - vectors[at]);
        assert!(calls <= in_vectors.div_ceil(16), "{in_vectors} packets in {calls} vectors");
        let drops = drops.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        assert_eq!(self.drops_since(&before)?, drops);
        let mut left = vec![None; packets.len()];
        for capture in captures {
            check(&packets, &capture.end()?, &mut left);
        }
        let lost =
            packets.iter().zip(&left).filter(|(one, by)| by.is_none() != one.leaves_by.is_empty());
        assert_eq!(lost.count(), 0, "frames are lost");
        Ok(packets.into_iter().zip(left).collect())
    }

    fn drops(&self) -> Result<BTreeMap<String, u64>> {
        let list = self.scenario.router.drops()?;
        Ok(list.into_iter().map(|one| (one.reason, one.packets)).collect())
    }

    /// The drop counters that have changed.
    fn drops_since(&self, before: &BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>> {
        let changed = |(reason, count): (String, u64)| {
            let count = count - before.get(&reason).copied().unwrap_or(0);
            (count > 0).then_some((reason, count))
        };
        Ok(self.drops()?.into_iter().filter_map(changed).collect())
    }
}

/// Notes the port by which each frame left; every frame is expected there and arrives once.
fn check(packets: &[Packet], seen: &Seen, left: &mut [Option<&'static str>]) {
    for bytes in &seen.frames {
        let number = number(bytes).expect("other frames are left out");
        let packet = &packets[number as usize];
        let is_it = |one: &&Interface| {
            one.port == seen.port && packet.frame.is_forwarded_as(bytes, number, one)
        };
        let found = packet.leaves_by.iter().find(is_it);
        assert!(found.is_some(), "{:?} left by {} as {bytes:02x?}", packet.frame, seen.port);
        let before = left[number as usize].replace(seen.port);
        assert_eq!(before, None, "{:?} left twice", packet.frame);
    }
}

/// A process that continues when this is dropped.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        kill(self.0, Signal::SIGCONT).expect("it is there");
    }
}

/// A fixed random order.
fn mix(packets: &mut [Packet]) {
    let mut state = 4711_u64;
    for at in (1..packets.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        packets.swap(at, (state >> 33) as usize % (at + 1));
    }
}

fn parse_mac(text: &str) -> [u8; 6] {
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
    bytes.collect::<Vec<_>>().try_into().expect("six bytes")
}

/// A packet socket at the host's end of a link.
struct Sender {
    socket: OwnedFd,
    address: LinkAddr,
}

impl Sender {
    fn open(host: &Host) -> Result<Self> {
        host.namespace().enter(|| {
            let flags = SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None);
            let devices = nix::ifaddrs::getifaddrs().expect("a list of devices");
            let mut own = devices.filter(|device| device.interface_name == "eth0");
            let address = own.find_map(|device| device.address?.as_link_addr().copied());
            Self { socket: socket.expect("root"), address: address.expect("it has eth0") }
        })
    }

    fn send(&self, frame: &[u8]) {
        let sent = sendto(self.socket.as_raw_fd(), frame, &self.address, MsgFlags::empty());
        assert_eq!(sent, Ok(frame.len()));
    }
}

/// tcpdump at the host's end of a link.
struct Capture {
    port: &'static str,
    file: PathBuf,
    running: Background,
}

/// The frames of these scenarios that a host received.
struct Seen {
    port: &'static str,
    frames: Vec<Vec<u8>>,
}

impl Capture {
    fn begin(scenario: &Scenario, port: &'static str) -> Result<Self> {
        let file = scenario.router.scratch().file(&format!("{port}.pcap"));
        // Without a short snapshot length its ring has only a few dozen slots.
        let words = ["-n", "-i", "eth0", "-Q", "in", "-U", "--immediate-mode"];
        let words = [&words[..], &["-s", "256", "-B", "16384"]].concat();
        let to = ["-Z", "root", "-w", &file.to_string_lossy()];
        let command = scenario.host(port).command(Tool::TCPDUMP)?.args(words).args(to);
        let running = command.spawn()?;
        running.wait_for("listening on", DEADLINE)?;
        Ok(Self { port, file, running })
    }

    fn end(self) -> Result<Seen> {
        let Self { port, file, running } = self;
        let (_, printed, _) = running.stop()?;
        assert!(printed.contains("\n0 packets dropped by kernel"), "{printed}");
        Ok(Seen { port, frames: frames(&file) })
    }
}

/// The frames of these scenarios in a file of tcpdump.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let Ok(file) = File::open(file) else { return Vec::new() };
    let Ok(mut reader) = PcapReader::new(file) else { return Vec::new() };
    let mut list = Vec::new();
    // A file that is still being written may end within a packet.
    while let Some(Ok(frame)) = reader.next_packet() {
        list.push(frame.data.into_owned());
    }
    list.retain(|frame| number(frame).is_some());
    list
}
