//! The kernel's network devices: netdevice(7), rtnetlink(7).

use std::ffi::{c_int, c_void};
use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use crate::error::OpenError;

/// A network device as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Its number in its namespace; a device made anew has another.
    pub index: c_int,
    /// It has Ethernet frames.
    pub ethernet: bool,
    /// It is set up and its link has carrier.
    pub running: bool,
    /// It was set up.
    pub admin_up: bool,
    /// Bytes of its IP packets.
    pub mtu: u32,
    /// Its address.
    pub mac: [u8; 6],
}

/// Why the device `name` cannot carry packets now; `None`: it can.
pub(crate) fn obstacle(name: &str, device: Option<&Device>) -> Option<String> {
    match device {
        None => Some(format!("device {name} is gone")),
        Some(device) if !device.admin_up => {
            Some(format!("device {name} is down: ip link set {name} up"))
        }
        Some(device) if !device.running => Some(format!("device {name} has no carrier")),
        Some(_) => None,
    }
}

/// Refuses what cannot be a device's name.
pub(crate) fn check_name(name: &str) -> std::result::Result<(), OpenError> {
    let fits = !name.is_empty() && name.len() < libc::IFNAMSIZ;
    if fits && !name.contains(|one: char| one == '/' || one == ':' || one.is_whitespace()) {
        return Ok(());
    }
    let reason = format!("`{name}` is not a device name: give 1 to 15 characters, no / or :");
    Err(OpenError::Config { field: "device", reason })
}

/// What the system refused.
pub(crate) fn system(doing: &'static str) -> impl Fn(Error) -> OpenError {
    move |source| OpenError::System { doing, source }
}

/// The system's answer or its error.
pub(crate) fn check(answer: c_int) -> Result<c_int> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

/// A socket that neither blocks nor is inherited.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::socket(domain, kind, protocol) })?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a netlink socket readable when a device of its namespace changes.
pub(crate) fn subscribe(watch: &OwnedFd) -> Result<()> {
    // SAFETY: all-zero is a valid sockaddr_nl.
    let mut address: libc::sockaddr_nl = unsafe { zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    bind_to(watch, &address)
}

/// A netlink socket that talks to the kernel.
pub(crate) fn to_kernel(socket: OwnedFd) -> Result<netlink_sys::Socket> {
    // SAFETY: the descriptor passes on to the socket, which alone owns it.
    let mut socket = unsafe { netlink_sys::Socket::from_raw_fd(socket.into_raw_fd()) };
    socket.bind_auto()?;
    socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// Binds to an address of any family.
pub(crate) fn bind_to<T>(socket: &OwnedFd, address: &T) -> Result<()> {
    let length = size_of::<T>() as u32;
    // SAFETY: the address lives through the call and has the length given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const *address).cast(), length) })?;
    Ok(())
}

/// Discards up to 64 messages that came by [`subscribe`]: only their arrival matters.
pub(crate) fn hush(watch: &OwnedFd) {
    let mut message = [0u8; 64];
    for _ in 0..64 {
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let got = unsafe {
            let into: *mut c_void = message.as_mut_ptr().cast();
            libc::recv(watch.as_raw_fd(), into, message.len(), libc::MSG_DONTWAIT)
        };
        // A full socket (ENOBUFS) reports once and goes on.
        if got < 0 && Error::last_os_error().raw_os_error() != Some(libc::ENOBUFS) {
            return;
        }
    }
}

/// The kernel's state of the device `name` in the namespace of `watch`; `None`: there is none.
pub(crate) fn device(watch: &OwnedFd, name: &str) -> Result<Option<Device>> {
    match describe(watch, name) {
        Ok(device) => Ok(Some(device)),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name that the device `index` has now, in the namespace of `watch`.
pub(crate) fn name(watch: &OwnedFd, index: c_int) -> Result<String> {
    let mut request = request("");
    request.ifr_ifru.ifru_ifindex = index;
    // SAFETY: SIOCGIFNAME reads the index of an ifreq and writes its name.
    check(unsafe { libc::ioctl(watch.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request) })?;
    let bytes = request.ifr_name.map(i8::cast_unsigned);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// A request about the device `name`.
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // One byte stays zero and ends the name.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    request
}

/// Sets a device up, as `ip link set NAME up` does.
pub(crate) fn set_up(watch: &OwnedFd, name: &str) -> Result<()> {
    let mut request = request(name);
    // SAFETY: both requests take an ifreq; SIOCGIFFLAGS fills the member that is changed.
    unsafe {
        check(libc::ioctl(watch.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16;
        check(libc::ioctl(watch.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request))?;
    }
    Ok(())
}

/// Gives a device a MAC address, as `ip link set NAME address MAC` does.
pub(crate) fn set_mac(watch: &OwnedFd, name: &str, mac: [u8; 6]) -> Result<()> {
    let mut request = request(name);
    // SAFETY: all-zero is a valid sockaddr.
    let mut address: libc::sockaddr = unsafe { zeroed() };
    address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as _;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    // SAFETY: SIOCSIFHWADDR reads an ifreq.
    check(unsafe { libc::ioctl(watch.as_raw_fd(), libc::SIOCSIFHWADDR, &raw mut request) })?;
    Ok(())
}

/// Gives a device an MTU, as `ip link set NAME mtu BYTES` does.
pub(crate) fn set_mtu(watch: &OwnedFd, name: &str, mtu: u32) -> Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = mtu.cast_signed();
    // SAFETY: SIOCSIFMTU reads an ifreq.
    check(unsafe { libc::ioctl(watch.as_raw_fd(), libc::SIOCSIFMTU, &raw mut request) })?;
    Ok(())
}

fn describe(watch: &OwnedFd, name: &str) -> Result<Device> {
    let mut request = request(name);
    let mut query = |what| {
        // SAFETY: these requests write an ifreq and nothing else.
        check(unsafe { libc::ioctl(watch.as_raw_fd(), what, &raw mut request) })?;
        Ok::<_, Error>(request.ifr_ifru)
    };
    // SAFETY: SIOCGIFINDEX, -FLAGS and -MTU each fill the member that is read.
    let (index, flags, mtu) = unsafe {
        (
            query(libc::SIOCGIFINDEX)?.ifru_ifindex,
            c_int::from(query(libc::SIOCGIFFLAGS)?.ifru_flags),
            query(libc::SIOCGIFMTU)?.ifru_mtu,
        )
    };
    // SAFETY: SIOCGIFHWADDR fills this member.
    let address = unsafe { query(libc::SIOCGIFHWADDR)?.ifru_hwaddr };
    let up = flags & libc::IFF_UP != 0;
    Ok(Device {
        index,
        ethernet: address.sa_family == libc::ARPHRD_ETHER,
        running: up && flags & libc::IFF_RUNNING != 0,
        admin_up: up,
        mtu: mtu.try_into().unwrap_or(0),
        mac: std::array::from_fn(|at| address.sa_data[at] as u8),
    })
}
