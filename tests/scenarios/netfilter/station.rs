//! Packet sockets of hosts: they send what no stack would, and see all that the router sends them.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt,
    socket, sockopt,
};
use stoa_lab::{Result, Topology};

const ETHERNET: usize = 14;

/// A packet socket at the host's end of a link.
pub struct Station {
    socket: OwnedFd,
    link: LinkAddr,
    router: [u8; 6],
}

impl Station {
    /// Opens one for a host.
    ///
    /// # Errors
    /// Errors of the lab.
    pub fn open(topology: &Topology, label: &str) -> Result<Self> {
        let router = topology.router_mac(label)?;
        topology.host(label).namespace().enter(|| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let all = SockProtocol::EthAll;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, all).expect("root");
            setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).expect("root");
            let devices = nix::ifaddrs::getifaddrs().expect("a list of devices");
            let mut own = devices.filter(|device| device.interface_name == "eth0");
            let link = own.find_map(|device| device.address?.as_link_addr().copied());
            let router = router.split(':').map(|it| u8::from_str_radix(it, 16).expect("a byte"));
            let router = router.collect::<Vec<_>>().try_into().expect("six bytes");
            Self { socket, link: link.expect("it has eth0"), router }
        })
    }

    fn own(&self) -> [u8; 6] {
        self.link.addr().expect("a MAC address")
    }

    /// Sends a packet to the router.
    pub fn send(&self, packet: &[u8]) {
        let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        let mut frame = [&self.router[..], &self.own(), &kind, packet].concat();
        frame.resize(frame.len().max(60), 0);
        let sent = sendto(self.socket.as_raw_fd(), &frame, &self.link, MsgFlags::empty());
        assert_eq!(sent, Ok(frame.len()));
    }

    /// The next packet that the router has sent, without what Ethernet adds.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut frame = [0; 2048];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut frame, MsgFlags::empty()).ok()?;
            if frame[..6] != self.own() || frame[6..12] != self.router || length < ETHERNET + 20 {
                continue;
            }
            let packet = &frame[ETHERNET..length];
            let half = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
            let end = match frame[12..14] {
                [8, 0] => half(2),
                [0x86, 0xdd] => 40 + half(4),
                _ => continue,
            };
            return Some(packet[..end.min(packet.len())].to_vec());
        }
    }
}

/// Waits a moment for a packet of any station.
pub fn wait(stations: &[Station]) {
    let ready = stations.iter().map(|it| PollFd::new(it.socket.as_fd(), PollFlags::POLLIN));
    // An interruption is as a timeout.
    let _ = poll(&mut ready.collect::<Vec<_>>(), 20_u8);
}
