//! Mappings of one owner: a worker, or the control thread for hosts that have asked for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use stoa_engine::quiescence::Quiescence;
use stoa_tables::Reclaim;
use stoa_tables::flow_table::{Created, FlowError, FlowOwner, Kind, NewFlow, Tuple};

use super::{End, Mappings, OVER, UNUSED};

/// The spare word of a mapping that has the number of its block or of its quota, plus one.
const BLOCK: usize = 0;
/// Mappings that one call looks at whose time has come; none has a timeout.
const FINISHED: usize = 256;
const NEVER: [u32; 256] = [u32::MAX; 256];
/// Seconds that a mapping stays without flows: of TCP the port is not used again before the other end's TIME-WAIT ends
/// with its flow, so that little is needed.
const LINGER_S: u32 = 4;

/// The mappings that a worker has made.
pub struct MappingOwner {
    owner: FlowOwner,
    /// Where the next look begins, and when the last one was complete.
    at: u32,
    last: u32,
    /// Whether there may be ids that wait for a grace period.
    is_dirty: bool,
}

impl MappingOwner {
    pub(super) fn new(owner: FlowOwner, now: u32) -> Self {
        Self { owner, at: 0, last: now, is_dirty: false }
    }

    /// Makes a mapping with one flow, of a policy with this number. It has a use of the block, if there is one, until
    /// it ends.
    ///
    /// # Errors
    /// [`FlowError::ReplyKeyTaken`]: another mapping has the external end. Others: there is no room, or another worker
    /// makes the same one at this moment.
    pub fn create(
        &mut self,
        all: &Mappings,
        (internal, external): (End, End),
        (policy, block): (u32, Option<u32>),
        now: u32,
    ) -> Result<u32, FlowError> {
        let (key, reply) = (internal.towards(policy), Some(external.of_nobody()));
        let made = self.insert(all, &NewFlow::new(key, reply), now);
        if matches!(made, Err(FlowError::Full { .. })) {
            all.refused.fetch_add(1, Ordering::Relaxed);
        }
        let id = made?;
        all.live.fetch_add(1, Ordering::Relaxed);
        // Only this worker ends it, and reads this.
        self.owner.entry(id).set_spare(BLOCK, block.map_or(0, |it| it + 1));
        Ok(id)
    }

    /// Removes a mapping that has ended, and gives back its block.
    fn remove(&mut self, all: &Mappings, id: u32, now: u32) {
        let entry = all.reader.entry(id);
        let block = entry.spare(BLOCK).unwrap_or(0).checked_sub(1);
        let is_host = !entry.has_second();
        let protocol = match entry.key().tuple {
            Tuple::Ip4(it) => it.protocol,
            Tuple::Ip6(_) => 0,
        };
        // One whose bucket another worker holds stays until the next look.
        if self.owner.remove(id).is_ok() {
            self.is_dirty = true;
            all.live.fetch_sub(u32::from(!is_host), Ordering::Relaxed);
            if let Some(block) = block {
                all.give_back(block, protocol, now);
            }
        }
    }

    /// Counts a flow of an external end to a host.
    ///
    /// # Errors
    /// As above.
    pub fn hold_host(
        &mut self,
        all: &Mappings,
        (external, host): (End, u32),
        now: u32,
    ) -> Result<(), FlowError> {
        let key = external.towards(host);
        let found = all.reader.find(&key).id();
        if found.is_some_and(|id| all.hold(id)) {
            return Ok(());
        }
        self.insert(all, &NewFlow::new(key, None), now).map(|_| ())
    }

    fn insert(&mut self, all: &Mappings, new: &NewFlow, now: u32) -> Result<u32, FlowError> {
        match self.owner.create(new, now, now)? {
            Created::New(id) => {
                if let Some(count) = all.count(id) {
                    count.store(UNUSED + 1, Ordering::Release);
                }
                Ok(id)
            }
            // Another worker makes it, or ends it: with the next packet it is one or the other.
            Created::Existing(_) => Err(FlowError::Contended),
        }
    }

    /// Hosts of mappings for which there is room, if other workers count none.
    pub fn free_hosts(&self) -> u32 {
        self.owner.available(Kind::Ip4)
    }

    /// Ends a mapping at once if it has no flow: the one that it was made for was refused. Otherwise refused packets
    /// would hold all ports for some seconds.
    pub fn give_up(&mut self, all: &Mappings, id: u32, now: u32) {
        let is_own = all.reader.entry(id).owner() == self.owner.number();
        if is_own && all.end(id) {
            self.remove(all, id, now);
        }
    }

    /// The same for the flow of an external end to a host.
    pub fn give_up_host(&mut self, all: &Mappings, external: End, host: u32, now: u32) {
        if let Some(id) = all.reader.find(&external.towards(host)).id() {
            self.give_up(all, id, now);
        }
    }

    /// Ends mappings without flows, looking at all of them every few seconds.
    pub fn maintain(&mut self, all: &Mappings, now: u32, quiescence: &Arc<Quiescence>) {
        // Finishes those whose external end another worker has held while they ended; others stay.
        self.owner.expire(now, &NEVER, FINISHED, |_| {});
        self.is_dirty |= self.owner.pending() > 0;
        if self.owner.live() == 0 && !self.is_dirty {
            return;
        }
        if self.at == 0 {
            if now.wrapping_sub(self.last) < LINGER_S {
                return self.reclaim(quiescence);
            }
            self.last = now;
        }
        let end = all.counts.len() as u32;
        // All of them within two seconds, when called ten times a second.
        let most = (end / 16).max(4_096);
        let until = self.at.saturating_add(most).min(end);
        for id in self.at..until {
            self.end_unused(all, id, now);
        }
        self.at = if until == end { 0 } else { until };
        self.reclaim(quiescence);
    }

    fn end_unused(&mut self, all: &Mappings, id: u32, now: u32) {
        let entry = all.reader.entry(id);
        if !entry.is_live() || entry.owner() != self.owner.number() {
            return;
        }
        let Some(count) = all.count(id) else { return };
        let is_young = now.wrapping_sub(entry.start()) < LINGER_S;
        let is_over = count.load(Ordering::Relaxed) == OVER || !is_young && all.end(id);
        if is_over {
            self.remove(all, id, now);
        }
    }

    /// Ends one mapping of its own if it has neither flows nor a lease, and gives back what others have held meanwhile.
    /// For an owner that knows its mappings, and need not look for them. Whether the mapping is gone.
    pub fn end_one(&mut self, all: &Mappings, id: u32, now: u32) -> bool {
        self.end_unused(all, id, now);
        let entry = all.reader.entry(id);
        !entry.is_live() || entry.owner() != self.owner.number()
    }

    /// Finishes mappings that have ended.
    pub fn finish(&mut self, now: u32, quiescence: &Arc<Quiescence>) {
        self.owner.expire(now, &NEVER, FINISHED, |_| {});
        self.is_dirty |= self.owner.pending() > 0;
        if self.is_dirty {
            self.reclaim(quiescence);
        }
    }

    fn reclaim(&mut self, quiescence: &Arc<Quiescence>) {
        if self.owner.pending() == 0 {
            self.is_dirty = false;
            return;
        }
        let epoch = quiescence.advance();
        self.owner.retire_mark(epoch);
        self.owner.reclaim(quiescence.safe());
    }
}
