//! Pairs interfaces with their host interfaces: settings follow, and workers pass packets between both.

use stoa_engine::Packet;
use stoa_engine::port::Followed;
use stoa_wire::ethernet::ethertype;

use crate::control::forwarder_state::ForwarderState;

impl ForwarderState {
    /// Copies MAC address, MTU and link state of an interface to its host interface.
    pub(super) fn sync_host_interface(&mut self, name: &str) {
        let Some(interface) = self.index_of(name).and_then(|index| self.interface(index)) else {
            return;
        };
        let followed = Followed {
            mac: interface.link.mac,
            mtu: interface.mtu.0.max(interface.mtu.1).into(),
            is_up: interface.is_up,
        };
        if followed.mtu == 0 {
            // The interface is only reserved so far.
            return;
        }
        if let Some(port) = self
            .capabilities
            .host_interfaces
            .by_name
            .get_mut(name)
            .and_then(|state| state.port.as_mut())
        {
            port.follow(&followed);
        }
    }

    /// Pairs interface and host interface for the workers while both exist and the host interface is up.
    pub(super) fn pair(&mut self, name: &str) {
        let interface =
            self.index_of(name).filter(|_| self.capabilities.host_interfaces.by_name[name].is_up);
        let tags = interface.and_then(|index| self.interface(index)).map(|state| {
            let mut tags = [0; 8];
            for (at, (tpid, vid)) in state.link.tags.iter().take(2).enumerate() {
                tags[4 * at..][..2].copy_from_slice(&tpid.to_be_bytes());
                tags[4 * at + 2..][..2].copy_from_slice(&vid.to_be_bytes());
            }
            tags
        });
        let Some(state) = self.capabilities.host_interfaces.by_name.get_mut(name) else { return };
        let (index, before) =
            (state.index, std::mem::replace(&mut state.paired_interface, interface));
        if before != interface {
            self.unpair(index, before);
        }
        if let (Some(interface), Some(tags)) = (interface, tags) {
            self.shared.interface(interface).set_host_pair(Some(index), tags);
            self.shared.interface(index).set_host_pair(Some(interface), [0; 8]);
        }
    }

    pub(super) fn unpair(&self, index: u32, paired_interface: Option<u32>) {
        self.shared.interface(index).set_host_pair(None, [0; 8]);
        if let Some(interface) = paired_interface {
            self.shared.interface(interface).set_host_pair(None, [0; 8]);
        }
    }

    /// Copies a packet that this thread has punted to Linux: ARP and neighbour advertisements concern both.
    /// Returns whether there is a host interface.
    pub(in crate::control) fn copy_to_host_interface(
        &mut self,
        packet: &Packet,
        source: [u8; 6],
    ) -> bool {
        let Some(host_interface) = self.shared.interface(packet.rx_if).host_pair() else {
            return false;
        };
        let Some(state) = self.interface(packet.rx_if) else { return false };
        let bytes = packet.bytes();
        let kind = if bytes.first().is_some_and(|first| first >> 4 == 6) {
            ethertype::IP6
        } else {
            ethertype::ARP
        };
        let frame = [&state.link.mac, &source, &kind.to_be_bytes()[..], bytes].concat();
        self.send_frame(host_interface, &frame);
        true
    }
}
