//! What the partner sends: in the numbers of this process, and to the workers that have or will have the flows.

use stoa_tables::flow_table::ANSWERED;

use super::Thread;
use crate::flow::adoption::LeftOut;
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;
use crate::flow::tracker::SENT_FLAGS;
use crate::flow_sync::leases;
use crate::flow_sync::message::{Item, Lease, Record, SentKey};
use crate::flow_sync::standby::{Outcome, Work};
use crate::pcp::lease::Key;

impl Thread {
    /// Does what an item of the partner says.
    pub(super) fn take(&mut self, item: Item) {
        match item {
            Item::Alive => {}
            Item::Names(lacks_flows, names) => {
                // What it sends behind them may be what was refused before.
                if self.theirs.replace(names).is_some() {
                    self.again.note_change();
                }
                self.partner_lacks_flows |= lacks_flows;
            }
            Item::Complete => (self.state.is_bulk_received, self.lacks_flows) = (true, false),
            Item::Again => self.again.note_asked(),
            Item::End(key) => {
                self.state.received_ends += 1;
                if let Some(key) = self.key(key) {
                    self.end(&key);
                }
            }
            Item::Known(key) => {
                let key = self.key(key);
                self.has_unknown_vrf |= key.is_none();
                if let Some((key, owner)) = key.and_then(|it| Some((it, self.owner(&it)?))) {
                    self.hand(owner, Work::Known(key, self.number));
                }
            }
            Item::Lease(lease) => {
                self.state.received_leases += 1;
                let lease = self.lease(*lease).map(Box::new);
                self.hand_lease(lease.map(|it| leases::Work::Lease(it, self.number)));
            }
            Item::LeaseEnd(key) => {
                self.hand_lease(self.lease_key(key).map(leases::Work::End));
            }
            Item::KnownLease(key) => {
                let key = self.lease_key(key);
                self.hand_lease(key.map(|it| leases::Work::Known(it, self.number)));
            }
            Item::Flow(record) => {
                self.state.received_records += 1;
                match self.translate(&record) {
                    Ok(it) => {
                        let owner = self.owner(&it.key()).unwrap_or(it.flow.owner);
                        self.hand(owner, Work::Flow(it, self.number));
                    }
                    Err(why) => {
                        self.has_unknown_vrf |= why == LeftOut::Vrf;
                        self.flows.standby().count(Outcome::Refused(why));
                    }
                }
            }
        }
    }

    /// Whether standby flows that this connection has not named have ended at the partner. One that lacks flows has
    /// ended none of them; and flows of a VRF that has another name there for now are named by nobody.
    pub(super) fn sweeps(&self) -> bool {
        self.state.is_bulk_received && !self.partner_lacks_flows && !self.has_unknown_vrf
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

    /// A key of the partner in the numbers of this process.
    fn key(&self, sent: SentKey) -> Option<SentKey> {
        let key = self.theirs.as_ref()?.key_in(&self.names, sent.key)?;
        Some(SentKey { key, ..sent })
    }

    /// The worker that has a flow.
    fn owner(&self, sent: &SentKey) -> Option<u8> {
        let hosts = self.flows.nat64_hosts();
        let key = sent.here(|key| hosts.key4(key, hosts.prefix(key.vrf)?))?;
        let reader = self.flows.reader(sent.is_ip4());
        let found = reader.find(&key).id().map(|id| reader.entry(id));
        found.filter(|it| it.is_live()).map(|it| it.owner())
    }

    /// A flow has ended. Its record may still wait for whichever worker will own it: all of them look behind that, and
    /// one counts that there is none.
    fn end(&self, key: &SentKey) {
        if let Some(owner) = self.owner(key) {
            return self.hand(owner, Work::End(*key, true));
        }
        for (at, (_, ring)) in self.flows.standby().rings().iter_mut().enumerate() {
            // There is room for all items of a frame.
            let _ = ring.push(Work::End(*key, at == 0));
        }
    }

    fn vrf(&self, vrf: u16) -> Option<u16> {
        self.theirs.as_ref()?.vrf_in(&self.names, vrf)
    }

    /// A key of a lease in the numbers of this process.
    fn lease_key(&self, key: Key) -> Option<Key> {
        Some(Key { vrf: self.vrf(key.vrf)?, ..key })
    }

    /// A lease in the numbers of this process.
    fn lease(&self, mut lease: Lease) -> Option<Lease> {
        lease.key = self.lease_key(lease.key)?;
        for vrf in [&mut lease.terms.origin.vrf, &mut lease.terms.external.vrf] {
            *vrf = self.vrf(*vrf)?;
        }
        Some(lease)
    }

    /// Has the control thread do something about a lease. `None`: its VRF is unknown here.
    fn hand_lease(&mut self, work: Option<leases::Work>) {
        let standby = self.flows.standby();
        match work {
            None => {
                self.has_unknown_vrf = true;
                standby.count(Outcome::Refused(LeftOut::Vrf));
            }
            Some(work) => {
                // There is room for all items of a frame.
                standby.leases().hand(work, 0);
            }
        }
    }

    /// Has a worker do something.
    fn hand(&self, owner: u8, work: Work) {
        let standby = self.flows.standby();
        if !standby.hand(owner.into(), work, 0) {
            standby.count(Outcome::Refused(LeftOut::Room));
        }
    }
}

#[cfg(test)]
mod tests;
