//! The interfaces that a part of a configuration leaves out, as they are in force: what is checked against all
//! interfaces is checked against these, too.

use std::collections::HashSet;

use stoa_api::v1;
use stoa_api::v1::port::Driver;

use super::interfaces::Interfaces;

/// The other interfaces and their ports; none where the whole is translated. They may be thousands: a pass over them
/// takes milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others<'a>(Option<Held<'a>>);

/// All interfaces and ports in force, and the names of those that are no others.
#[derive(Clone, Copy, Debug)]
struct Held<'a> {
    interfaces: &'a Interfaces,
    ports: &'a [v1::Port],
    part: &'a HashSet<String>,
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

    /// VRF and address of all that the interface has and had not, or had in a family that was not enabled.
    pub fn new_addresses(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let old = self.old;
        let enabled = move || addresses_of(old, |family| family.enabled);
        addresses(self.new).filter(move |new| enabled().all(|held| held != *new))
    }

    /// Whether a property of the interface and its port is as it was. What the others had to do with it, they still
    /// have, and it is not necessary to look at each of them.
    pub fn keeps<T: PartialEq>(&self, of: impl Fn(WithPort<'a>) -> T) -> bool {
        self.old.map(&of) == self.new.map(&of)
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
    addresses_of(given, |_| true)
}

/// VRF and address of all that an interface has in some families.
fn addresses_of(
    given: Option<WithPort<'_>>,
    counts: fn(&v1::Family) -> bool,
) -> impl Iterator<Item = (&str, &[u8])> {
    given.into_iter().flat_map(move |(interface, _)| {
        let families = families(interface).filter(move |family| counts(family));
        let addresses = families.flat_map(|family| &family.addresses);
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

impl<'a> Others<'a> {
    /// The interfaces and ports that are not those of a part with these names.
    pub fn of(
        interfaces: &'a Interfaces,
        ports: &'a [v1::Port],
        part: &'a HashSet<String>,
    ) -> Others<'a> {
        Others(Some(Held { interfaces, ports, part }))
    }

    /// The interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = &'a v1::Interface> + use<'a> {
        let all = self.0.into_iter();
        all.flat_map(|Held { interfaces, part, .. }| {
            interfaces.iter().filter(|it| !part.contains(&it.name))
        })
    }

    /// The ports of these.
    pub fn ports(&self) -> impl Iterator<Item = &'a v1::Port> + use<'a> {
        let all = self.0.into_iter();
        all.flat_map(|Held { ports, part, .. }| {
            ports.iter().filter(|it| !part.contains(&it.interface))
        })
    }

    /// The interface of this name, if it is one of them.
    pub fn named(&self, name: &str) -> Option<&'a v1::Interface> {
        let Held { interfaces, part, .. } = self.0?;
        interfaces.named(name).filter(|_| !part.contains(name))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.interfaces().next().is_none()
    }

    /// Whether one is a sub-interface of the interface of this name.
    pub fn have_parent(&self, name: &str) -> bool {
        self.find(|it| it.parent == name).is_some()
    }

    /// Whether one is in this VRF.
    pub fn are_in(&self, vrf: &str) -> bool {
        self.find(|it| it.vrf == vrf).is_some()
    }

    /// One for which this holds. Names are compared last: that takes longest.
    pub fn find(&self, is_it: impl Fn(&v1::Interface) -> bool) -> Option<&'a v1::Interface> {
        let Held { interfaces, part, .. } = self.0?;
        interfaces.iter().find(|it| is_it(it) && !part.contains(&it.name))
    }
}
