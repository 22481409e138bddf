//! What nodes need to know about the interface of each packet, in compact arrays: kernels gather the
//! entries of 8 or 16 lanes at once, so that a vector may mix interfaces. Written by the control
//! thread only.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stoa_engine::INTERFACES;
use stoa_engine::counters::{OutOfMemory, zeroed};
use stoa_engine::gather::gather_32;
use stoa_engine::vector::Column;

use crate::ethernet::mac_word;

/// Bits of [`Attributes::flags`].
pub mod interface_flags {
    /// Administratively up.
    pub const UP: u32 = 1;
    /// IPv4 is enabled.
    pub const IP4: u32 = 2;
    /// IPv6 is enabled.
    pub const IP6: u32 = 4;
    /// Forwards IPv4 packets that it receives.
    pub const FORWARD4: u32 = 8;
    /// Forwards IPv6 packets that it receives.
    pub const FORWARD6: u32 = 16;
    /// Has features of the arc `ethernet-input`.
    pub const FEATURES_ETHERNET: u32 = 32;
    /// Replies to IPv4 router solicitations (RFC 1256).
    pub const DISCOVERY4: u32 = 64;
    /// Sends IPv6 router advertisements and processes those of other routers (RFC 4861 6.2).
    pub const ADVERTISE6: u32 = 128;
    /// Has IPv4 virtual routers (RFC 9568).
    pub const VRRP4: u32 = 256;
    /// Has IPv6 virtual routers.
    pub const VRRP6: u32 = 512;
    /// Has an active virtual router: receives frames to its MAC address.
    pub const VIRTUAL: u32 = 1024;
    /// Is a sub-interface: its frames have VLAN tags.
    pub const SUB_INTERFACE: u32 = 2048;
    /// The lowest 16 bits are part of [`super::Attributes::link`].
    pub const LINK: u32 = 0xffff;
    /// Is in another VRF than the default one.
    pub const IN_VRF: u32 = 1 << 16;
    /// Has features of the arc `ip4-input`.
    pub const FEATURES4: u32 = 1 << 17;
    /// Has features of the arc `ip6-input`.
    pub const FEATURES6: u32 = 1 << 18;
    /// Is an external interface of NAT64.
    pub const NAT64: u32 = 1 << 19;
    /// All bits of features.
    pub const FEATURES: u32 = FEATURES_ETHERNET | FEATURES4 | FEATURES6;
}

/// The first bit of the reverse path modes in [`Attributes::flags`]: two bits for IPv4, two for IPv6.
pub const REVERSE_PATH: u32 = 24;

/// The first bit of the flags in [`Attributes::link`].
pub const LINK_FLAGS: u32 = 48;

/// The attributes of all interfaces, by index.
pub struct Attributes {
    link: Box<[AtomicU64]>,
    flags: Box<[AtomicU32]>,
    vrf: Box<[AtomicU32]>,
    acl: Box<[AtomicU32]>,
}

impl Attributes {
    /// Those of interfaces that do not exist.
    pub fn new() -> Result<Self, OutOfMemory> {
        let (link, flags, vrf) = (zeroed(INTERFACES)?, zeroed(INTERFACES)?, zeroed(INTERFACES)?);
        Ok(Self { link, flags, vrf, acl: zeroed(INTERFACES)? })
    }

    /// The MAC address, see [`mac_word`], with the lowest 16 flags from bit [`LINK_FLAGS`] on.
    #[inline(always)]
    pub fn link(&self) -> &[AtomicU64] {
        &self.link
    }

    /// See [`interface_flags`].
    #[inline(always)]
    pub fn flags(&self) -> &[AtomicU32] {
        &self.flags
    }

    /// VRFs as ids of [`crate::shared::vrf_id`]; 0 is the default one.
    #[inline(always)]
    pub fn vrf(&self) -> &[AtomicU32] {
        &self.vrf
    }

    /// What rules of access lists compare, see [`crate::acl::interfaces`].
    #[inline(always)]
    pub fn acl(&self) -> &[AtomicU32] {
        &self.acl
    }

    /// The same of one interface.
    #[inline(always)]
    pub fn acl_of(&self, interface: u32) -> u32 {
        self.acl[interface as usize % INTERFACES].load(Ordering::Relaxed)
    }

    /// Sets it. It outlives the interface: packets that this has received may still be on their way to rules.
    pub(crate) fn set_acl(&self, interface: u32, word: u32) {
        self.acl[interface as usize % INTERFACES].store(word, Ordering::Release);
    }

    /// The flags of one interface.
    #[inline(always)]
    pub fn flags_of(&self, interface: u32) -> u32 {
        self.flags[interface as usize % INTERFACES].load(Ordering::Relaxed)
    }

    /// Whether the interfaces of all lanes have a flag.
    #[inline]
    pub fn all_have(&self, flag: u32, interfaces: &Column<u32>, lanes: usize) -> bool {
        if let Some(interface) = interfaces.uniform(lanes) {
            return self.flags_of(interface) & flag != 0;
        }
        let mut flags = Column::of(0);
        gather_32(&self.flags, interfaces, lanes, &mut flags);
        flags[..lanes].iter().fold(flag, |all, flags| all & flags) != 0
    }

    /// The VRF of one interface.
    #[inline(always)]
    pub fn vrf_of(&self, interface: u32) -> u32 {
        self.vrf[interface as usize % INTERFACES].load(Ordering::Relaxed)
    }

    /// MAC address and flags of one interface, see [`Self::link`].
    #[inline(always)]
    pub fn link_of(&self, interface: u32) -> u64 {
        self.link[interface as usize % INTERFACES].load(Ordering::Relaxed)
    }

    /// The MAC address of one interface, see [`mac_word`].
    #[inline(always)]
    pub fn mac_of(&self, interface: u32) -> u64 {
        self.link_of(interface) & ((1 << LINK_FLAGS) - 1)
    }

    /// Sets the attributes of an interface; bits of features stay.
    pub(crate) fn set(&self, interface: u32, mac: &[u8; 6], flags: u32, vrf: u32) {
        use interface_flags::{FEATURES, IN_VRF, LINK};
        debug_assert_eq!(flags & (IN_VRF | FEATURES), 0);
        let at = interface as usize % INTERFACES;
        let features = self.flags[at].load(Ordering::Relaxed) & FEATURES;
        let flags = flags | features | if vrf == 0 { 0 } else { IN_VRF };
        self.vrf[at].store(vrf, Ordering::Relaxed);
        let link = mac_word(mac) | u64::from(flags & LINK) << LINK_FLAGS;
        self.flags[at].store(flags, Ordering::Release);
        self.link[at].store(link, Ordering::Release);
    }

    /// Clears the attributes of an interface that was removed. It stays in its VRF: packets that it has
    /// received may still be on their way to the look-up, and must not be routed in the default VRF.
    pub(crate) fn clear(&self, interface: u32) {
        self.set(interface, &[0; 6], 0, self.vrf_of(interface));
    }

    /// Sets or clears flags of an interface.
    pub(crate) fn set_flag(&self, interface: u32, flag: u32, on: bool) {
        let at = interface as usize % INTERFACES;
        let flags = self.flags[at].load(Ordering::Relaxed);
        let flags = if on { flags | flag } else { flags & !flag };
        self.flags[at].store(flags, Ordering::Release);
        let link = u64::from(flags & interface_flags::LINK) << LINK_FLAGS;
        self.link[at].store(self.mac_of(interface) | link, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::interface_flags::*;
    use super::*;

    #[test]
    fn features_outlive_other_changes() {
        let attributes = Attributes::new().unwrap();
        attributes.set_flag(7, FEATURES4 | FEATURES_ETHERNET, true);
        attributes.set(7, &[2, 0, 0, 0, 0, 9], UP | IP4 | VIRTUAL, 3);
        assert_eq!(
            attributes.flags_of(7),
            UP | IP4 | VIRTUAL | IN_VRF | FEATURES4 | FEATURES_ETHERNET
        );
        assert_eq!(
            (attributes.vrf_of(7), attributes.mac_of(7)),
            (3, mac_word(&[2, 0, 0, 0, 0, 9]))
        );
        let link = attributes.link()[7].load(Ordering::Relaxed);
        assert_eq!(link >> LINK_FLAGS, u64::from(UP | IP4 | VIRTUAL | FEATURES_ETHERNET));
        attributes.set_flag(7, FEATURES_ETHERNET, false);
        let link = attributes.link_of(7);
        assert_eq!(
            link,
            mac_word(&[2, 0, 0, 0, 0, 9]) | u64::from(UP | IP4 | VIRTUAL) << LINK_FLAGS
        );
        attributes.set_flag(7, FEATURES4, false);
        attributes.set(7, &[0; 6], 0, 0);
        assert_eq!((attributes.flags_of(7), attributes.flags_of(8)), (0, 0));
    }

    #[test]
    fn a_removed_interface_stays_in_its_vrf() {
        let attributes = Attributes::new().unwrap();
        attributes.set(7, &[2, 0, 0, 0, 0, 9], UP | IP4 | FORWARD4, 3);
        attributes.clear(7);
        assert_eq!((attributes.vrf_of(7), attributes.flags_of(7)), (3, IN_VRF));
        assert_eq!(attributes.mac_of(7), 0);
        // The next interface with this index.
        attributes.set(7, &[2, 0, 0, 0, 0, 8], UP, 0);
        assert_eq!((attributes.vrf_of(7), attributes.flags_of(7)), (0, UP));
    }
}
