//! What the partner sends: in the numbers of this process, and to the workers that have or will have the flows.

use stoa_tables::flow_table::{ANSWERED, FlowKey};

use super::Thread;
use crate::flow::adoption::LeftOut;
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;
use crate::flow::tracker::SENT_FLAGS;
use crate::flow_sync::message::{Item, Record};
use crate::flow_sync::standby::{Outcome, Work};

impl Thread {
    /// Does what an item of the partner says.
    pub(super) fn take(&mut self, item: Item) {
        match item {
            Item::Alive => {}
            Item::Names(process, names) => {
                self.theirs = Some(names);
                self.has_restarted |= self.their_process.replace(process) != Some(process);
            }
            Item::Complete => self.state.is_bulk_received = true,
            Item::End(key) => {
                self.state.received_ends += 1;
                let theirs = self.theirs.as_ref();
                if let Some(key) = theirs.and_then(|it| it.key_in(&self.names, key)) {
                    self.end(&key);
                }
            }
            Item::Flow(record) => {
                self.state.received_records += 1;
                match self.translate(&record) {
                    Ok(it) => self.hand(&it.flow.key, it.flow.owner, Work::Flow(it)),
                    Err(why) => self.flows.standby().count(Outcome::Refused(why)),
                }
            }
        }
    }

    /// A record in the numbers of this process, with flags that no table has otherwise.
    fn translate(&self, record: &Record) -> Result<Record, LeftOut> {
        let theirs = self.theirs.as_ref().ok_or(LeftOut::Vrf)?;
        let mut flow = theirs.translate(&self.names, &record.flow)?;
        let state = Class::ALL.get(usize::from(without_profile(flow.class)));
        let is_replied = flow.flags & ANSWERED != 0;
        let eviction = state.ok_or(LeftOut::Damaged)?.eviction(is_replied);
        flow.flags = flow.flags & SENT_FLAGS & !ANSWERED | eviction.flags();
        Ok(Record { flow, ..*record })
    }

    /// A flow has ended. Its record may still wait for whichever worker will own it: all of them look behind that.
    fn end(&self, key: &FlowKey) {
        let reader = self.flows.reader(!key.is_ip6());
        if reader.find(key).is_some() {
            return self.hand(key, 0, Work::End(*key));
        }
        for (_, ring) in &mut *self.flows.standby().rings() {
            // There is room for all items of a frame.
            let _ = ring.push(Work::End(*key));
        }
    }

    /// Has the worker do it that owns the flow, or will.
    fn hand(&self, key: &FlowKey, owner: u8, work: Work) {
        let reader = self.flows.reader(!key.is_ip6());
        let found = reader.find(key).id().map(|id| reader.entry(id)).filter(|it| it.is_live());
        let rings = &mut *self.flows.standby().rings();
        let of = usize::from(found.map_or(owner, |it| it.owner()));
        let count = rings.len().max(1);
        let ring = rings.iter().position(|(worker, _)| *worker == of).unwrap_or(of % count);
        let is_there = rings.get_mut(ring).is_some_and(|(_, ring)| ring.push(work).is_ok());
        if !is_there {
            self.flows.standby().count(Outcome::Refused(LeftOut::Room));
        }
    }
}
