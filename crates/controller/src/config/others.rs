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

/// An interface with its port.
pub type WithPort<'a> = (&'a v1::Interface, Option<&'a v1::Port>);

/// An interface that changes.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceChange<'a> {
    /// As it was; `None`: it is new.
    pub old: Option<WithPort<'a>>,
    /// As it is now; `None`: it is removed.
    pub new: Option<WithPort<'a>>,
}

impl<'a> InterfaceChange<'a> {
    /// The interface as it was, with its port, and as it is.
    pub fn both(&self) -> impl Iterator<Item = WithPort<'a>> + use<'a> {
        [self.old, self.new].into_iter().flatten()
    }

    /// Its name, if others may need it to have what it had and has no more: its kind or its families.
    pub fn name_of_another_kind(&self) -> Option<&'a str> {
        let (old, _) = self.old?;
        (shape(self.old) != shape(self.new)).then_some(old.name.as_str())
    }

    /// VRF and address of all that the interface had.
    pub fn addresses_before(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        addresses(self.old)
    }

    /// VRF and address of all that the interface has.
    pub fn addresses_after(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        addresses(self.new)
    }
}

/// What others may need an interface to have or not to have: its kind and its families.
fn shape(given: Option<WithPort<'_>>) -> Option<(bool, bool, bool, bool)> {
    given.map(|(interface, port)| {
        let is_tunnel = port.is_some_and(|port| tunnel_of(port).is_some());
        (port.is_some(), is_tunnel, interface.ip4.is_some(), interface.ip6.is_some())
    })
}

/// VRF and address of all that an interface has, be the family enabled or not.
fn addresses(given: Option<WithPort<'_>>) -> impl Iterator<Item = (&str, &[u8])> {
    given.into_iter().flat_map(|(interface, _)| {
        let addresses = families(interface).flat_map(|family| &family.addresses);
        addresses.map(|one| (interface.vrf.as_str(), one.address.as_slice()))
    })
}

/// Both families of an interface.
pub fn families(interface: &v1::Interface) -> impl Iterator<Item = &v1::Family> {
    [&interface.ip4, &interface.ip6].into_iter().flatten()
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

    /// Whether one is a sub-interface of the interface of this name.
    pub fn have_parent(&self, name: &str) -> bool {
        self.interfaces.iter().any(|it| it.parent == name)
    }

    /// Whether one is in this VRF.
    pub fn are_in(&self, vrf: &str) -> bool {
        self.interfaces.iter().any(|it| it.vrf == vrf)
    }
}
