//! What received packets of translated flows become, for a vector at once.

#[cfg(all(target_arch = "x86_64", not(loom)))]
use super::avx2_ends_kernel as kernel;
use super::reader::{FlowReader, Match};
use crate::lpm::Kernel;

/// Packets of a vector at most.
pub const LANES: usize = 256;
/// Packets of a byte of [`Translations::lanes`].
pub(super) const STEP: usize = 8;

/// The ends of packets behind the router, in columns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Translations {
    /// Source addresses.
    pub sources: [u32; LANES],
    /// Destination addresses.
    pub destinations: [u32; LANES],
    /// Source ports above destination ports.
    pub ports: [u32; LANES],
    /// The packets that are to be translated, as bits: the first one is the lowest bit of the first byte. What the
    /// columns hold for others means nothing.
    pub lanes: [u8; LANES / STEP],
}

impl Default for Translations {
    fn default() -> Self {
        Self { sources: [0; _], destinations: [0; _], ports: [0; _], lanes: [0; _] }
    }
}

impl FlowReader {
    /// The [other ends](Self::other_ends) of those of the first `count` packets that [have been
    /// received](Match::is_received). `words`: what their look-up has found ([`Match::word`]).
    ///
    /// # Panics
    ///
    /// There are more than [`LANES`], or the table has no such id.
    #[inline]
    pub fn translate(&self, words: &[u32; LANES], count: usize, to: &mut Translations) {
        let steps = count.div_ceil(STEP);
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        let is_done =
            self.kernel() >= Kernel::Avx2 && kernel::translate(self.memory(), words, steps, to);
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let is_done = self.kernel() > Kernel::Avx2;
        if !is_done {
            self.translate_scalar(words, count, to);
        }
        to.lanes[steps..].fill(0);
        if !count.is_multiple_of(STEP) {
            to.lanes[steps - 1] &= (1 << (count % STEP)) - 1;
        }
    }

    fn translate_scalar(&self, words: &[u32; LANES], count: usize, to: &mut Translations) {
        to.lanes = [0; _];
        for (lane, word) in words.iter().enumerate().take(count) {
            let found = Match::of_word(*word);
            if let Some(ends) = self.other_ends(found).filter(|_| found.is_received()) {
                to.sources[lane] = ends.source;
                to.destinations[lane] = ends.destination;
                to.ports[lane] = ends.ports;
                to.lanes[lane / STEP] |= 1 << (lane % STEP);
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
    use crate::flow_table::{FlowCapacity, FlowKey, FlowTable, NewFlow};

    proptest! {
        #[test]
        fn all_kernels_translate_alike(
            flows in prop::collection::vec((any::<[u32; 3]>(), any::<[u16; 3]>()), 1..40),
            asked in prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8), 0..=LANES),
            removed in any::<prop::sample::Index>(),
        ) {
            let capacity =
                FlowCapacity { ip4: 40, translated_ip4: 40, ..FlowCapacity::default() };
            let mut table = FlowTable::new(&capacity, &secret(3)).unwrap();
            let (mut owner, reader) = (table.owner(0, 0).unwrap(), table.reader());
            let mut keys = Vec::new();
            for (at, ([inside, remote, outside], [own, far, external])) in flows.iter().enumerate() {
                let protocol = 17;
                let [key, reply] = [(*inside, *remote, *own, *far), (*remote, *outside, *far, *external)]
                    .map(|(source, destination, source_port, destination_port)| {
                        let it =
                            Flow { source, destination, source_port, destination_port, protocol };
                        FlowKey::ip4(it, 1)
                    });
                let new = NewFlow::new(key, (at % 5 != 0).then_some(reply));
                let _ = owner.create(&new, 0, 10);
                keys.push([key, reply]);
            }
            let mut words = [Match::NONE.word(); LANES];
            for (word, (at, which)) in words.iter_mut().zip(&asked) {
                let [key, reply] = *at.get(&keys);
                let asked = [key, reply, key.reversed(), reply.reversed(), key][usize::from(*which)];
                *word = if *which < 4 { reader.find(&asked).word() } else { Match::NONE.word() };
            }
            // Lanes that are not in use hold anything.
            words[asked.len()..].fill(7);
            if let Some(id) = reader.find(&removed.get(&keys)[0]).id() {
                owner.remove(id).unwrap();
            }
            let scalar = reader.clone().with_kernel(Kernel::Scalar).unwrap();
            let mut expected = Translations::default();
            scalar.translate(&words, asked.len(), &mut expected);
            for (lane, word) in words.iter().enumerate().take(asked.len()) {
                let found = Match::of_word(*word);
                let ends = reader.other_ends(found).filter(|_| found.is_received());
                prop_assert_eq!(ends.is_some(), expected.lanes[lane / 8] >> (lane % 8) & 1 == 1);
            }
            if let Some(reader) = reader.clone().with_kernel(Kernel::Avx2) {
                let mut found = Translations::default();
                reader.translate(&words, asked.len(), &mut found);
                prop_assert_eq!(found.lanes, expected.lanes);
                for lane in (0..asked.len()).filter(|it| found.lanes[it / 8] >> (it % 8) & 1 == 1) {
                    let of = |it: &Translations| [it.sources[lane], it.destinations[lane], it.ports[lane]];
                    prop_assert_eq!(of(&found), of(&expected));
                }
            }
        }
    }
}
