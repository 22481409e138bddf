//! What packets read of their flows, for a vector at once.

use core::sync::atomic::Ordering::Relaxed;

#[cfg(all(target_arch = "x86_64", not(loom)))]
use super::avx2_states_kernel as kernel;
use super::line::{SEEN, TCP, VERDICT};
use super::owned_flows::{Judged, OwnedFlows};
use super::reader::Match;
use super::translations::LANES;
use crate::lpm::Kernel;

/// What the flows of packets have in their lines, in columns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct FlowStates {
    /// Epoch, timeout class and flags; see [`Judged::is`]. 0: there is no such flow.
    pub judged: [u32; LANES],
    /// The tick of the last packet.
    pub seen: [u32; LANES],
    /// The first word of the state of TCP.
    pub tcp: [u32; LANES],
}

impl Default for FlowStates {
    fn default() -> Self {
        Self { judged: [0; _], seen: [0; _], tcp: [0; _] }
    }
}

impl Judged {
    /// Whether a word of [`FlowStates::judged`] is that of a live flow with this epoch and these flags.
    #[inline(always)]
    pub const fn is(self, word: u32) -> bool {
        word & self.mask == self.value
    }
}

impl OwnedFlows<'_> {
    /// Reads the flows that [`Self::get`] has for the first `count` packets.
    ///
    /// # Panics
    ///
    /// There are more than [`LANES`].
    #[inline]
    pub fn read(&self, found: &[Match; LANES], count: usize, to: &mut FlowStates) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        let is_done = self.kernel >= Kernel::Avx2 && kernel::read(self, found, count, to);
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let is_done = self.kernel > Kernel::Avx2;
        if !is_done {
            self.read_scalar(&found[..count], to);
        } else if !self.is_alone {
            self.leave_out_foreign(&found[..count], to);
        }
    }

    fn leave_out_foreign(&self, found: &[Match], to: &mut FlowStates) {
        for (found, judged) in found.iter().zip(&mut to.judged) {
            if *judged != 0 && self.get(*found).is_none() {
                *judged = 0;
            }
        }
    }

    fn read_scalar(&self, found: &[Match], to: &mut FlowStates) {
        for (lane, found) in found.iter().enumerate() {
            to.judged[lane] = 0;
            if let Some(flow) = self.get(*found) {
                let of = |at: usize| flow.line[at].load(Relaxed);
                (to.judged[lane], to.seen[lane], to.tcp[lane]) = (of(VERDICT), of(SEEN), of(TCP));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow_hash::Flow;
    use crate::flow_table::tests::secret;
    use crate::flow_table::{Created, FlowCapacity, FlowKey, FlowTable, NewFlow};

    fn key([source, destination]: [u32; 2], is_ip6: bool) -> FlowKey {
        let (source_port, destination_port, protocol) = (7, 9, 17);
        if is_ip6 {
            let [source, destination] = [source, destination].map(u128::from);
            let it = Flow { source, destination, source_port, destination_port, protocol };
            return FlowKey::ip6(it, 0);
        }
        FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
    }

    proptest! {
        #[test]
        fn all_kernels_read_alike(
            flows in prop::collection::vec((any::<[u32; 3]>(), 0..8_u8, any::<u16>()), 1..40),
            asked in prop::collection::vec((any::<prop::sample::Index>(), 0..6_u8), 0..=LANES),
            removed in any::<prop::sample::Index>(),
            capacities in prop::sample::select(vec![[40; 4], [40, 0, 0, 0], [0, 40, 40, 0], [0, 0, 40, 0]]),
        ) {
            let [ip4, translated_ip4, ip6, translated_ip6] = capacities;
            let capacity = FlowCapacity { ip4, translated_ip4, ip6, translated_ip6 };
            let mut table = FlowTable::new(&capacity, &secret(3)).unwrap();
            let mut owners = [0, 1].map(|number| table.owner(number, 0).unwrap());
            let reader = table.reader();
            let (mut keys, mut created) = (Vec::new(), Vec::new());
            for ([inside, remote, outside], of, epoch) in &flows {
                let (is_ip6, is_translated) = (of & 2 != 0, of & 4 != 0);
                let pairs = [[*inside, *remote], [*remote, *outside]];
                let [first, reply] = pairs.map(|ends| key(ends, is_ip6));
                let tcp = [epoch.wrapping_mul(3).into(); _];
                let new = NewFlow::new(first, is_translated.then_some(reply));
                let new = NewFlow { epoch: *epoch, tcp, ..new };
                let owner = usize::from(of & 1);
                if let Ok(Created::New(id)) = owners[owner].create(&new, 5, 10) {
                    created.push((owner, id));
                }
                keys.extend([first, reply]);
            }
            if let Some((owner, id)) = (!created.is_empty()).then(|| *removed.get(&created)) {
                owners[owner].remove(id).unwrap();
            }
            let mut found = [Match::NONE; LANES];
            for (found, (at, how)) in found.iter_mut().zip(&asked) {
                let key = *at.get(&keys);
                *found = match how {
                    0 | 1 => reader.find(&key),
                    2 | 3 => reader.find(&key.reversed()),
                    // What was found before, or never.
                    4 => Match(at.index(200) as u32 | (at.index(8) as u32) << 30),
                    _ => Match::NONE,
                };
            }
            // Lanes that are not in use hold anything.
            found[asked.len()..].fill(Match(7));
            for (owner, is_alone) in [(0, false), (0, true), (1, false)] {
                let read = |kernel| {
                    let mut states = FlowStates::default();
                    owners[owner].flows(is_alone, kernel).read(&found, asked.len(), &mut states);
                    states
                };
                let (scalar, other) = (read(Kernel::Scalar), read(Kernel::detect()));
                let flows = owners[owner].flows(is_alone, Kernel::Scalar);
                for (lane, found) in found.iter().enumerate().take(asked.len()) {
                    prop_assert_eq!(scalar.judged[lane], other.judged[lane]);
                    prop_assert_eq!(scalar.judged[lane] == 0, flows.get(*found).is_none_or(|it| {
                        it.line[VERDICT].load(Relaxed) == 0
                    }));
                    if scalar.judged[lane] != 0 {
                        let entry = reader.entry(found.id().unwrap());
                        prop_assert_eq!(entry.tcp_word(), scalar.tcp[lane]);
                        prop_assert_eq!(entry.seen(), scalar.seen[lane]);
                        prop_assert_eq!(entry.epoch(), (scalar.judged[lane] >> 16) as u16);
                        let of = |it: &FlowStates| (it.tcp[lane], it.seen[lane]);
                        prop_assert_eq!(of(&scalar), of(&other));
                    }
                }
            }
        }
    }
}
