//! The interfaces that a part of a configuration leaves out, as they are in force: what is checked against all
//! interfaces is checked against these, too.

use stoa_api::v1;
use stoa_api::v1::port::Driver;

/// The other interfaces and their ports; none where the whole is translated.
#[derive(Clone, Debug, Default)]
pub struct Others<'a> {
    /// The interfaces.
    pub interfaces: Vec<&'a v1::Interface>,
    /// The ports of these.
    pub ports: Vec<&'a v1::Port>,
}

/// Both families of an interface.
pub fn families(interface: &v1::Interface) -> impl Iterator<Item = &v1::Family> {
    [&interface.ip4, &interface.ip6].into_iter().flatten()
}

/// The device of a port that has one that host interfaces could have, and its namespace.
pub fn device_of(port: &v1::Port) -> Option<(&str, &str)> {
    match &port.driver {
        Some(
            Driver::AfPacket(v1::AfPacket { device, netns })
            | Driver::Tap(v1::Tap { device, netns }),
        ) => Some((netns, device)),
        _ => None,
    }
}

/// The tunnel of a port.
pub fn tunnel_of(port: &v1::Port) -> Option<&v1::Tunnel> {
    match &port.driver {
        Some(Driver::Tunnel(tunnel)) => Some(tunnel),
        _ => None,
    }
}

impl Others<'_> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// Whether one of a VRF has an address, be the family enabled or not.
    pub fn has_address(&self, vrf: &str, address: &[u8]) -> bool {
        let has = |family: &v1::Family| family.addresses.iter().any(|own| own.address == address);
        let mut here = self.interfaces.iter().filter(|it| it.vrf == vrf);
        here.any(|it| families(it).any(has))
    }

    /// The namespaces of their host interfaces.
    pub fn host_namespaces(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().filter_map(|it| Some(it.host_interface.as_ref()?.netns.as_str()))
    }

    /// Whether one needs the interface of this name: as its parent, for its cross-connect, or for its priority.
    pub fn refer_to(&self, name: &str) -> bool {
        self.interfaces.iter().any(|it| {
            let mut routers = families(it).flat_map(|family| &family.virtual_routers);
            it.parent == name
                || it.cross_connect == name
                || routers.any(|router| router.tracked.iter().any(|on| on.interface == name))
        })
    }

    /// Whether one is a sub-interface of the interface of this name.
    pub fn have_parent(&self, name: &str) -> bool {
        self.interfaces.iter().any(|it| it.parent == name)
    }

    /// Whether one is in this VRF.
    pub fn are_in(&self, vrf: &str) -> bool {
        self.interfaces.iter().any(|it| it.vrf == vrf)
    }

    /// Whether one has a tunnel for which this holds, in this VRF.
    pub fn have_tunnel(&self, vrf: &str, is_it: impl Fn(&v1::Tunnel) -> bool) -> bool {
        let mut ports = self.ports.iter().filter(|port| tunnel_of(port).is_some_and(&is_it));
        ports
            .any(|port| self.interfaces.iter().any(|it| it.name == port.interface && it.vrf == vrf))
    }

    /// Whether one has a BFD session with this address in this VRF.
    pub fn have_bfd_with(&self, vrf: &str, address: &[u8]) -> bool {
        let mut here = self.interfaces.iter().filter(|it| it.vrf == vrf);
        here.any(|it| it.bfd.iter().any(|session| session.address == address))
    }
}
