//! MAC addresses of active virtual routers (RFC 9568 section 7.3). The lookup is only necessary for
//! unicast frames to other addresses than that of the interface.

/// Interfaces and MAC addresses (as [`super::mac_word`]).
#[derive(Clone, Debug, Default)]
pub struct VirtualMacs {
    sorted: Vec<(u32, u64)>,
}

impl FromIterator<(u32, u64)> for VirtualMacs {
    fn from_iter<T: IntoIterator<Item = (u32, u64)>>(all: T) -> Self {
        let mut sorted: Vec<_> = all.into_iter().collect();
        sorted.sort_unstable();
        Self { sorted }
    }
}

impl VirtualMacs {
    /// Whether no virtual router is active.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Whether an active virtual router on the interface has this MAC address.
    pub fn has(&self, interface: u32, mac: u64) -> bool {
        self.sorted.binary_search(&(interface, mac)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_their_interface() {
        let macs: VirtualMacs = [(3, 9), (1, 7), (3, 8)].into_iter().collect();
        assert!(macs.has(1, 7) && macs.has(3, 8) && macs.has(3, 9));
        assert!(!macs.has(1, 8) && !macs.has(2, 7));
    }
}
