//! The far end of a link in a test: a packet socket of our own that sends what we like, offload
//! headers included, and frames and sums made the simple way.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use stoa_lab::Namespace;

/// A packet socket on a device with offload headers.
pub struct Raw {
    socket: OwnedFd,
}

impl Raw {
    /// Opens it in a namespace.
    pub fn new(namespace: &Namespace, device: &str) -> Self {
        namespace.enter(|| Self::here(device)).expect("inside")
    }

    fn here(device: &str) -> Self {
        let index = nix::net::if_::if_nametoindex(device).expect("a device");
        let one: c_int = 1;
        // SAFETY: plain socket calls; what they point to lives through each call.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            let value = (&raw const one).cast();
            let set = libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, value, 4);
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = index as c_int;
            let length = size_of_val(&address) as u32;
            let bound = libc::bind(fd, (&raw const address).cast(), length);
            assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
            Self { socket }
        }
    }

    /// Sends a frame with its offload header.
    pub fn send(&self, header: [u8; 10], frame: &[u8]) {
        let message = [&header[..], frame].concat();
        // SAFETY: the message lives through the call.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0)
        };
        let error = std::io::Error::last_os_error();
        assert_eq!(sent, message.len() as isize, "{error}");
    }
}

/// A sum as in RFC 1071.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Where IP begins, behind all tags.
pub fn ip_at(frame: &[u8]) -> usize {
    let mut at = 12;
    while matches!(frame[at..at + 2], [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    at + 2
}

/// The transport part of a packet, after lengths and all checksums were found right.
pub fn checked(frame: &[u8]) -> &[u8] {
    let l3 = ip_at(frame);
    let ip = &frame[l3..];
    let (transport, mut pseudo) = if ip[0] >> 4 == 4 {
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        assert!(total <= ip.len() && ip.len() - total < 46, "total length {total}");
        assert_eq!(sum(&ip[..20]), 0xffff, "IPv4 header checksum");
        (&ip[20..total], [&ip[12..20], &[0, ip[9]]].concat())
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])) + 40, ip.len());
        (&ip[40..], [&ip[8..40], &[0, ip[6]]].concat())
    };
    pseudo.extend((transport.len() as u16).to_be_bytes());
    pseudo.extend(transport);
    assert_eq!(sum(&pseudo), 0xffff, "transport checksum");
    transport
}

/// A frame of `length` bytes with an experimental EtherType (IEEE 802, local experimental 1)
/// and a number in it, behind `tags`.
pub fn plain(number: u32, tags: &[[u8; 4]], length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xfa, 2, 0, 0, 0, 0, 0xce];
    frame.extend(tags.iter().flatten());
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(length, number as u8);
    frame
}

/// Whether a frame is one of [`plain`].
pub fn is_plain(frame: &[u8]) -> bool {
    let at = ip_at(frame) - 2;
    frame[at..at + 2] == [0x88, 0xb5]
}
