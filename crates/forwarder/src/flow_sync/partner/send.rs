//! What is sent: the bulk, and what changes behind it.

use std::time::Instant;

use super::Thread;
use crate::flow_sync::connection::{Connection, End};
use crate::flow_sync::message::put_complete;
use crate::flow_sync::walk::{Moment, Walk};

/// Bytes of items after which a frame is sealed.
const BATCH: usize = 16 << 10;
/// Turns of the bulk in a step.
const BULK_TURNS: usize = 8;

impl Thread {
    /// Sends what the partner does not know, as far as there is room.
    pub(super) fn walk(
        &mut self,
        connection: &mut Connection,
        (now, tick): (Instant, u32),
    ) -> Result<(), End> {
        if self.theirs.is_none() {
            return Ok(());
        }
        if self.again.begins_bulk(now, self.bulk > self.walks.len()) {
            self.bulk = 0;
            self.walks.iter_mut().for_each(Walk::begin_again);
            self.leases.begin_again();
        }
        let timeouts = self.flows.profiles().timeouts();
        let mut moment = Moment {
            now: tick,
            age_s: self.settings.age_s,
            is_bulk: true,
            has_standby: self.partner_lacks_flows,
            connection: self.number,
            is_swept: self.sweeps(),
            timeouts: &timeouts,
        };
        let (mut items, mut failed) = (Vec::with_capacity(2 * BATCH), None);
        for _ in 0..BULK_TURNS {
            let room = room(connection, &mut failed);
            if let Some(walk) = self.walks.get_mut(self.bulk) {
                let turn = walk.turn(&self.flows, moment, room, &mut items);
                turn.add_to(&mut self.state);
                self.bulk += usize::from(turn.is_done);
            } else if self.bulk == self.walks.len() {
                if self.walk_leases(moment, room, &mut items) {
                    self.bulk += 1;
                    put_complete(&mut items);
                }
            } else {
                break;
            }
        }
        if self.bulk > self.walks.len() {
            moment.is_bulk = false;
            self.walk_leases(moment, room(connection, &mut failed), &mut items);
            for walk in &mut self.walks {
                let turn =
                    walk.turn(&self.flows, moment, room(connection, &mut failed), &mut items);
                turn.add_to(&mut self.state);
            }
        }
        if !items.is_empty() {
            connection.send(&items)?;
        }
        let is_full = !connection.has_room();
        self.state.queue_full += u64::from(is_full && !self.was_full);
        self.was_full = is_full;
        failed.map_or(Ok(()), Err)
    }

    /// Sends what the partner does not know of some leases; whether these were the last ones.
    fn walk_leases(
        &mut self,
        moment: Moment<'_>,
        has_room: impl FnMut(&mut Vec<u8>) -> bool,
        to: &mut Vec<u8>,
    ) -> bool {
        let turn = self.leases.turn(self.flows.standby().leases(), moment, has_room, to);
        self.state.sent_leases += turn.leases;
        turn.is_done
    }
}

/// Whether there is room for one more item. Seals the items as a frame when they are many.
fn room<'a>(
    connection: &'a mut Connection,
    failed: &'a mut Option<End>,
) -> impl FnMut(&mut Vec<u8>) -> bool + 'a {
    |items| {
        if items.len() >= BATCH {
            if let Err(end) = connection.send(items) {
                *failed = Some(end);
            }
            items.clear();
        }
        failed.is_none() && connection.has_room()
    }
}
