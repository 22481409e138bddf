//! The flows of one owner, for the packets of a vector: what nearly all packets read of their flow, and change in it.
//! Where the arrays are and which ids a kind has is looked up once for the vector, as stores to flows keep the compiler
//! from doing so.

use core::sync::atomic::Ordering::Relaxed;

use super::line::{Direction, FlowEntry, LIVE, OWNER_SHIFT, RULE, SECOND, SEEN, TCP, VERDICT};
use super::memory::{COUNTER_WORDS, Kind, LINE_WORDS, Memory, RECORD_WORDS};
use super::owner::FlowOwner;
use super::reader::Match;
use crate::sync::AtomicU32;

/// Words behind the counters of a translated flow.
const SPARE_WORDS: usize = COUNTER_WORDS - 4;

/// The flows of an owner.
#[derive(Clone, Copy, Debug)]
pub struct OwnedFlows<'a> {
    memory: &'a Memory,
    lines: &'a [[AtomicU32; LINE_WORDS]],
    records: &'a [[AtomicU32; RECORD_WORDS]],
    counters: &'a [[AtomicU32; COUNTER_WORDS]],
    /// Where the ids of [`Kind::TranslatedIp4`], [`Kind::Ip6`] and [`Kind::TranslatedIp6`] begin.
    first: [u32; 3],
    number: u8,
    is_alone: bool,
}

/// A flow to which a packet belongs.
#[derive(Clone, Copy, Debug)]
pub struct PassedFlow<'a> {
    memory: &'a Memory,
    line: &'a [AtomicU32; LINE_WORDS],
    /// Packets and bytes of the original direction, and of the replies.
    counters: &'a [AtomicU32; 4],
    /// The spare words of a translated flow.
    spare: Option<&'a [AtomicU32; SPARE_WORDS]>,
    id: u32,
}

/// What epoch and flags a live flow must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    mask: u32,
    value: u32,
}

impl Judged {
    /// This epoch and `flags`, of those flags that `mask` has.
    pub fn new(epoch: u16, flags: u8, mask: u8) -> Self {
        let word = |epoch: u16, flags: u8| (epoch as u32) << 16 | flags as u32;
        Self { mask: word(u16::MAX, mask | LIVE), value: word(epoch, flags & mask | LIVE) }
    }
}

impl FlowOwner {
    /// The flows of this owner. `is_alone`: no other one has flows.
    #[inline]
    pub fn flows(&self, is_alone: bool) -> OwnedFlows<'_> {
        let (memory, number) = (&*self.memory, self.number());
        OwnedFlows {
            memory,
            lines: memory.lines(),
            records: memory.records(),
            counters: memory.all_counters(),
            first: [
                memory.ids_of(Kind::TranslatedIp4).start,
                memory.ids_of(Kind::Ip6).start,
                memory.ids_of(Kind::TranslatedIp6).start,
            ],
            number,
            is_alone,
        }
    }
}

impl<'a> OwnedFlows<'a> {
    /// The flow that the look-up of a packet has found, [live](FlowEntry::is_live) or not. `None`: there is none, it
    /// is another owner's, it translates IPv6 packets, or it has translated the packet already.
    #[inline(always)]
    pub fn get(&self, found: Match) -> Option<PassedFlow<'a>> {
        let id = found.id()?;
        let line = self.lines.get(id as usize)?;
        let [translated_ip4, ip6, translated_ip6] = self.first;
        let in_line = line[SECOND..].first_chunk()?;
        let (counters, spare) = match () {
            () if id < translated_ip4 => (in_line, None),
            () if id < ip6 => {
                let words = self.counters.get((id - translated_ip4) as usize)?;
                if !found.is_received() {
                    return None;
                }
                (words.first_chunk()?, words.last_chunk())
            }
            () if id < translated_ip6 => (in_line, None),
            () => return None,
        };
        if !self.is_alone {
            let rule = self.records.get(id as usize)?[RULE].load(Relaxed);
            if rule >> OWNER_SHIFT != self.number.into() {
                return None;
            }
        }
        Some(PassedFlow { memory: self.memory, line, counters, spare, id })
    }
}

impl PassedFlow<'_> {
    /// Whether it is live, and has such an epoch and flags, at one moment.
    #[inline(always)]
    pub fn is(&self, judged: Judged) -> bool {
        self.line[VERDICT].load(Relaxed) & judged.mask == judged.value
    }

    /// The first word of the state of TCP.
    #[inline(always)]
    pub fn tcp_word(&self) -> u32 {
        self.line[TCP].load(Relaxed)
    }

    /// A spare word of a translated flow (0 or 1), as [`FlowEntry::spare`].
    #[inline(always)]
    pub fn spare(&self, at: usize) -> Option<u32> {
        self.spare?.get(at).map(|word| word.load(Relaxed))
    }

    /// A packet came at tick `now`. Stores only when the tick is another one.
    #[inline(always)]
    pub fn refresh(&self, now: u32) {
        if self.line[SEEN].load(Relaxed) != now {
            self.line[SEEN].store(now, Relaxed);
        }
    }

    /// Counts packets in a direction.
    #[inline(always)]
    pub fn count(&self, direction: Direction, packets: u32, bytes: u32) {
        let at = direction as usize * 2;
        let words = [&self.counters[at], &self.counters[at + 1]];
        let [has_more, has_more_bytes] = add(words, [packets, bytes]);
        if has_more | has_more_bytes {
            FlowEntry::new(self.memory, self.id).carry(direction, has_more, has_more_bytes);
        }
    }
}

/// Adds to the lower words of packets and bytes; which of them overflow.
#[inline(always)]
pub(super) fn add(words: [&AtomicU32; 2], by: [u32; 2]) -> [bool; 2] {
    // No `map` of an array: it is not inlined.
    let (packets, has_more) = words[0].load(Relaxed).overflowing_add(by[0]);
    let (bytes, has_more_bytes) = words[1].load(Relaxed).overflowing_add(by[1]);
    words[0].store(packets, Relaxed);
    words[1].store(bytes, Relaxed);
    [has_more, has_more_bytes]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flow_hash::Flow;
    use crate::flow_table::tests::secret;
    use crate::flow_table::{Created, FlowCapacity, FlowKey, FlowTable, NewFlow};

    fn key(number: u32, is_ip6: bool) -> FlowKey {
        let (source_port, destination_port, protocol) = (7, 9, 17);
        if is_ip6 {
            let [source, destination] = [number, 99].map(u128::from);
            return FlowKey::ip6(
                Flow { source, destination, source_port, destination_port, protocol },
                0,
            );
        }
        let (source, destination) = (number, 99);
        FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
    }

    /// All kinds of flows, of two owners: what one finds, reads and changes is what the entry has.
    #[test]
    fn passed_flows_are_the_entries() {
        let capacity = FlowCapacity { ip4: 4, translated_ip4: 4, ip6: 4, translated_ip6: 4 };
        let mut table = FlowTable::new(&capacity, &secret(1)).unwrap();
        let mut owners = [0, 1].map(|number| table.owner(number, 0).unwrap());
        let reader = table.reader();
        for (at, (is_ip6, is_translated, of)) in [false, true]
            .into_iter()
            .flat_map(|six| {
                [false, true].into_iter().flat_map(move |two| [0, 1].map(|of| (six, two, of)))
            })
            .enumerate()
        {
            let number = 1 + 2 * at as u32;
            let reply = is_translated.then(|| key(number + 1, is_ip6).reversed());
            let first = key(number, is_ip6);
            let new = NewFlow { epoch: 5, flags: 3, tcp: [11; _], ..NewFlow::new(first, reply) };
            let created = owners[of].create(&new, 0, 10);
            let Ok(Created::New(id)) = created else { panic!("{created:?}") };
            for (received, direction) in [
                (first, Direction::Original),
                (reply.unwrap_or(first.reversed()), Direction::Reply),
            ] {
                let found = reader.find(&received);
                assert_eq!((found.id(), found.direction()), (Some(id), direction));
                assert!(owners[1 - of].flows(false).get(found).is_none(), "another owner's");
                let flow = [false, true].map(|is_alone| owners[of].flows(is_alone).get(found));
                if is_ip6 && is_translated {
                    assert!(flow.iter().all(Option::is_none));
                    continue;
                }
                let flow = flow[0].unwrap();
                flow.count(direction, 2, u32::MAX);
                flow.count(direction, 1, 3);
                flow.refresh(4);
                assert_eq!((flow.tcp_word(), flow.spare(1)), (11, reader.entry(id).spare(1)));
                assert!(flow.is(Judged::new(5, 1, 1)) && flow.is(Judged::new(5, 3, 7)));
                assert!(!flow.is(Judged::new(4, 1, 1)) && !flow.is(Judged::new(5, 1, 3)));
                let counters = reader.entry(id).counters(direction);
                assert_eq!((counters.packets, counters.bytes), (3, (1 << 32) + 2));
                assert_eq!(reader.entry(id).seen(), 4);
                // Of a translated one, the same packet behind the router.
                let sent = match direction {
                    Direction::Original => reply.map(|reply| reply.reversed()),
                    Direction::Reply => reply.map(|_| first.reversed()),
                };
                if let Some(sent) = sent {
                    assert!(owners[of].flows(true).get(reader.find(&sent)).is_none());
                }
            }
            owners[of].remove(id).unwrap();
            let dead = owners[of].flows(true).get(Match(id));
            assert!(dead.is_none_or(|flow| !flow.is(Judged::new(5, 0, 0))));
        }
        assert!(owners[0].flows(true).get(Match::NONE).is_none());
    }
}
