//! System calls of the AF_PACKET driver, made safe: packet(7).

use std::ffi::{c_int, c_void};
use std::io::{Error, Result};
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::device_opener::{self, SocketKind};
use crate::netdevice::{bind_to, check};
use crate::netns::Namespace;
use crate::offload::VNET_HEADER;

/// A packet socket of that namespace that receives nothing yet.
pub(crate) fn packet_socket(namespace: &Namespace) -> Result<OwnedFd> {
    device_opener::flat(device_opener::socket(namespace, SocketKind::Packet))
}

/// Sets an option of the packet level.
pub(super) fn set<T>(socket: &OwnedFd, option: c_int, value: &T) -> Result<()> {
    set_at(socket, libc::SOL_PACKET, option, value)
}

fn set_at<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> Result<()> {
    let length = size_of_val(value) as u32;
    let value: *const c_void = (&raw const *value).cast();
    // SAFETY: the value lives through the call and has the length given.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) })?;
    Ok(())
}

/// Requests socket buffers of `bytes` in both directions; what the system grants is fine.
pub(crate) fn enlarge(socket: &OwnedFd, bytes: c_int) {
    for (force, option) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if set_at(socket, libc::SOL_SOCKET, force, &bytes).is_err() {
            // Without CAP_NET_ADMIN the limit of the system holds.
            let _ = set_at(socket, libc::SOL_SOCKET, option, &bytes);
        }
    }
}

/// Binds to a device; a socket with `receive` gets its frames from now on.
pub(super) fn bind(socket: &OwnedFd, index: c_int, receive: bool) -> Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = if receive { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
    address.sll_ifindex = index;
    bind_to(socket, &address)
}

/// Makes the device take frames for every address, as long as the socket is open.
pub(crate) fn promiscuous(socket: &OwnedFd, index: c_int) -> Result<()> {
    // SAFETY: all-zero is a valid packet_mreq.
    let mut member: libc::packet_mreq = unsafe { zeroed() };
    member.mr_ifindex = index;
    member.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &member)
}

/// Joins the sockets that share a device's frames by flow; the first one, with `None`, founds
/// the group. Returns the group.
pub(super) fn fan_out(socket: &OwnedFd, group: Option<u16>) -> Result<u16> {
    let kind = libc::PACKET_FANOUT_HASH;
    let requested = match group {
        Some(group) => u32::from(group) | kind << 16,
        None => (kind | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16,
    };
    set(socket, libc::PACKET_FANOUT, &requested)?;
    let is: u32 = get(socket, libc::PACKET_FANOUT)?;
    Ok(is as u16)
}

fn get<T: Copy + Default>(socket: &OwnedFd, option: c_int) -> Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `length` bytes of a plain number or struct of numbers.
    check(unsafe {
        let into: *mut c_void = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, into, &raw mut length)
    })?;
    Ok(value)
}

/// Frames that the kernel had no space for since the last query.
pub(super) fn drops(socket: &OwnedFd) -> u64 {
    // struct tpacket_stats: packets, drops.
    let [_, drops]: [u32; 2] = get(socket, libc::PACKET_STATISTICS).unwrap_or_default();
    drops.into()
}

/// A frame that [`receive`] brought.
pub(super) struct Received {
    /// Bytes written.
    pub length: usize,
    /// It was longer.
    pub cut: bool,
    /// The tag that the kernel took off.
    pub tag: Option<[u8; 4]>,
}

/// A tag as four bytes for the wire.
pub(super) fn tag(status: u32, tci: u16, tpid: u16) -> Option<[u8; 4]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [a, b] = if known { tpid.to_be_bytes() } else { [0x81, 0x00] };
    let [c, d] = tci.to_be_bytes();
    Some([a, b, c, d])
}

/// Fetches one frame from the socket's queue; `None`: it is empty.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    header: &mut [u8; VNET_HEADER],
    space: &mut [u8],
) -> Result<Option<Received>> {
    let mut parts = [
        libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
        libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() },
    ];
    // Space for one control message, aligned as such.
    let mut control = [0u64; 8];
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: all that the message points to lives through the call, with the lengths given.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if got < 0 {
        let error = Error::last_os_error();
        let empty = error.kind() == std::io::ErrorKind::WouldBlock;
        return if empty { Ok(None) } else { Err(error) };
    }
    let cut = message.msg_flags & libc::MSG_TRUNC != 0;
    let length = (got as usize).saturating_sub(VNET_HEADER).min(space.len());
    Ok(Some(Received { length, cut, tag: auxiliary(&message) }))
}

/// The tag that a message's auxiliary data names.
fn auxiliary(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has filled in the control data of this message and its length.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(&raw const *message);
        if control.is_null()
            || (*control).cmsg_level != libc::SOL_PACKET
            || (*control).cmsg_type != libc::PACKET_AUXDATA
            || (*control).cmsg_len < libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as _
        {
            return None;
        }
        let data = libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned();
        tag(data.tp_status, data.tp_vlan_tci, data.tp_vlan_tpid)
    }
}

/// Sends the first messages of `which`; returns how many were taken, or why not even the first.
pub(super) fn send(
    socket: &OwnedFd,
    messages: &mut Messages,
    which: std::ops::Range<usize>,
) -> Result<usize> {
    let rest = &mut messages.heads[..messages.used][which];
    // SAFETY: `Messages` keeps heads that point to its own parts, each part to memory that
    // its filler promised to keep until `clear`.
    let sent = check(unsafe {
        let heads = rest.as_mut_ptr();
        libc::sendmmsg(socket.as_raw_fd(), heads, rest.len() as u32, libc::MSG_DONTWAIT)
    })?;
    Ok(sent as usize)
}

/// Messages for one [`send`], each of several parts.
pub(super) struct Messages {
    heads: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
    used: usize,
    used_parts: usize,
}

// SAFETY: the pointers inside are followed by the kernel only, within `send`, after the owner
// of the queue has filled them in on the same thread.
unsafe impl Send for Messages {}

impl Messages {
    /// Space for `messages` with `parts` in all.
    pub fn new(messages: usize, parts: usize) -> Self {
        // SAFETY: all-zero is a valid mmsghdr and a valid iovec.
        let (head, part): (libc::mmsghdr, libc::iovec) = unsafe { (zeroed(), zeroed()) };
        Self {
            heads: vec![head; messages].into_boxed_slice(),
            parts: vec![part; parts].into_boxed_slice(),
            used: 0,
            used_parts: 0,
        }
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        (self.used, self.used_parts) = (0, 0);
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Begins a message without parts.
    pub fn begin(&mut self) {
        let first = self.parts[self.used_parts..].as_mut_ptr();
        let head = &mut self.heads[self.used].msg_hdr;
        head.msg_iov = first;
        head.msg_iovlen = 0;
        self.used += 1;
    }

    /// Adds a part to the message that was begun last.
    ///
    /// # Safety
    /// `bytes` stay where they are and unchanged until the last [`send`] before [`Self::clear`].
    pub unsafe fn add(&mut self, bytes: &[u8]) {
        let part = &mut self.parts[self.used_parts];
        *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        self.used_parts += 1;
        self.heads[self.used - 1].msg_hdr.msg_iovlen += 1;
    }
}
