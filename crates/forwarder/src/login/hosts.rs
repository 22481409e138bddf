//! Who has logged in, by interface and MAC address.

use std::sync::Arc;

use stoa_tables::exact_match::ExactMatchReader;

use super::Admits;
use super::shares::Rates;

/// An interface where hosts have to log in.
#[derive(Clone)]
pub struct LoginInterface {
    /// The numbers of logins, by [`super::key`]. The control thread changes it in place.
    pub hosts: ExactMatchReader,
    /// What unknown hosts may do.
    pub admits: Arc<Admits>,
    /// What each of them may cause.
    pub rates: Arc<Rates>,
    /// Bytes of the VLAN tags of its frames: 0, 4 or 8.
    pub tags: usize,
}

/// All interfaces where hosts have to log in.
#[derive(Default)]
pub struct Logins {
    /// By index, in order.
    interfaces: Vec<(u32, LoginInterface)>,
}

impl FromIterator<(u32, LoginInterface)> for Logins {
    fn from_iter<T: IntoIterator<Item = (u32, LoginInterface)>>(all: T) -> Self {
        let mut interfaces: Vec<_> = all.into_iter().collect();
        interfaces.sort_by_key(|(index, _)| *index);
        Self { interfaces }
    }
}

impl Logins {
    /// An interface by its index; `None`: hosts need not log in there, or do not yet.
    #[inline]
    pub fn of(&self, interface: u32) -> Option<&LoginInterface> {
        let at = self.interfaces.binary_search_by_key(&interface, |(index, _)| *index).ok()?;
        self.interfaces.get(at).map(|(_, it)| it)
    }
}
