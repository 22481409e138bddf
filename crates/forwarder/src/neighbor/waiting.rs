//! The buffers of packets that wait for their neighbours. Anybody can send packets to addresses that nobody has:
//! they may hold a share of the buffers, and the packets to one link may hold half of it, so that buffers are
//! always left for other packets and for neighbours on other links.

use std::collections::HashMap;

use stoa_engine::Packet;
use stoa_engine::pool::SLOT;

/// One in so many buffers of each kind, plain and jumbo, may wait for neighbours.
const SHARE: usize = 8;
/// One in so many may wait for the neighbours of one interface.
const INTERFACE_SHARE: usize = 16;

/// Plain and jumbo buffers.
type Buffers = [usize; 2];

/// How many buffers wait.
#[derive(Default)]
pub(super) struct Waiting {
    all: Buffers,
    by_interface: HashMap<u32, Buffers>,
}

/// The kind of a packet's buffer, and how many there are.
fn kind(packet: &Packet) -> (usize, usize) {
    let pool = packet.pool();
    if packet.capacity() > SLOT {
        (1, pool.jumbo_count() as usize)
    } else {
        (0, pool.count() as usize)
    }
}

/// The most packets that wait at a time with so many plain and jumbo buffers.
pub fn most(buffers: [usize; 2]) -> usize {
    buffers.iter().map(|count| count / SHARE).sum()
}

impl Waiting {
    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.all.iter().sum()
    }

    /// Counts a packet to a neighbour on that interface; `false`, and not counted: it may not wait.
    pub(super) fn add(&mut self, interface: u32, packet: &Packet) -> bool {
        let (kind, count) = kind(packet);
        let of_interface = self.by_interface.get(&interface).map_or(0, |buffers| buffers[kind]);
        if self.all[kind] >= count / SHARE || of_interface >= count / INTERFACE_SHARE {
            return false;
        }
        self.all[kind] += 1;
        self.by_interface.entry(interface).or_default()[kind] += 1;
        true
    }

    /// The packets do not wait any more.
    pub(super) fn remove<'a>(
        &mut self,
        interface: u32,
        packets: impl IntoIterator<Item = &'a Packet>,
    ) {
        for packet in packets {
            let (kind, _) = kind(packet);
            self.all[kind] = self.all[kind].saturating_sub(1);
            if let Some(of_interface) = self.by_interface.get_mut(&interface) {
                of_interface[kind] = of_interface[kind].saturating_sub(1);
                if of_interface.iter().all(|count| *count == 0) {
                    self.by_interface.remove(&interface);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_engine::Pool;
    use stoa_engine::pool::HugePages;

    use super::*;

    #[test]
    fn shares_hold_by_interface_and_in_total() {
        let pool = Pool::leak(512, HugePages::Never).unwrap();
        let mut waiting = Waiting::default();
        let mut add = |interface, packet: Option<Packet>| {
            let packet = packet.unwrap();
            waiting.add(interface, &packet).then_some(packet)
        };
        let plain: Vec<_> = (0..40).map_while(|_| add(1, pool.packet())).collect();
        assert_eq!(plain.len(), 512 / 16);
        let jumbo: Vec<_> = (0..99).map_while(|_| add(1, pool.jumbo_packet())).collect();
        assert_eq!(jumbo.len(), 1024 / 16, "the kinds have shares of their own");
        let others: Vec<_> = (2..99).map_while(|at| add(at, pool.packet())).collect();
        assert_eq!(others.len(), 512 / 16);
        assert!(add(200, pool.packet()).is_none());
        assert_eq!(waiting.len(), 512 / 8 + 1024 / 16);
        assert!(waiting.len() <= most([512, 1024]));
        waiting.remove(1, plain.iter().chain(&jumbo));
        (2..).zip(&others).for_each(|(at, packet)| waiting.remove(at, [packet]));
        assert_eq!((waiting.len(), waiting.by_interface.len()), (0, 0));
    }
}
