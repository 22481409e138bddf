//! Keeps Linux from working on frames that are ours.
//!
//! A packet socket hears a copy: behind it Linux goes on with the frame, looks a route up, and drops
//! it or answers a second time. Two BPF instructions at the device's ingress, where frames come
//! when the sockets have them, end that. They go with their descriptor.

use std::ffi::c_int;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;

use nix::ifaddrs::getifaddrs;

use crate::af_xdp::bpf;

/// What Linux does with the frames that a device receives.
pub(super) enum Linux {
    /// It sees none, as long as this lives.
    Deaf {
        /// Holds the program on the device.
        _link: OwnedFd,
    },
    /// It works on them as well; why.
    Hears(String),
}

impl Linux {
    /// Has the device's frames dropped behind the sockets, which are bound to it already, unless it has
    /// an address in Linux: somebody may use it, perhaps to reach this machine.
    pub fn keep_out(index: c_int, name: &str) -> Self {
        if has_address(name) {
            return Self::Hears("it has an address there".into());
        }
        match bpf::drop_behind_sockets(index as u32) {
            Ok(link) => Self::Deaf { _link: link },
            Err(error) => Self::Hears(format!("no BPF program at its ingress: {error}")),
        }
    }

    /// For the port's detail.
    pub fn words(&self) -> String {
        match self {
            Self::Deaf { .. } => String::new(),
            Self::Hears(why) => format!(", Linux works on the frames, too ({why})"),
        }
    }
}

/// Whether a device of this thread's namespace has an address in Linux that somebody gave it. When
/// that cannot be told, it counts as one.
fn has_address(name: &str) -> bool {
    let Ok(mut all) = getifaddrs() else { return true };
    all.any(|one| {
        let Some(address) = one.address.filter(|_| one.interface_name == name) else {
            return false;
        };
        let is_given = |ip: Ipv6Addr| !ip.is_unicast_link_local();
        address.as_sockaddr_in().is_some()
            || address.as_sockaddr_in6().is_some_and(|six| is_given(six.ip()))
    })
}
