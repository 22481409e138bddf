//! Flows of a former process ([`crate::flow::adoption`]).

use stoa_tables::flow_table::{Created, FlowKey, FormerFlow, NewFlow};

use super::spliced::SPLICED;
use super::{Side, Uses};
use crate::flow::adoption::LeftOut;
use crate::flow::flows::Now;
use crate::flow::profiles::without_profile;
use crate::flow::timeouts::Class;

impl Side {
    /// Whether a flow of a former process can go on.
    ///
    /// # Errors
    /// Why it is left out.
    pub fn check_former(&self, flow: &FormerFlow, now: Now) -> Result<(), LeftOut> {
        if usize::from(without_profile(flow.class)) >= Class::ALL.len()
            || flow.key.is_ip6() == self.is_ip4
        {
            return Err(LeftOut::Damaged);
        }
        if flow.flags & SPLICED != 0 {
            return Err(LeftOut::Altered);
        }
        let idle = now.tick.wrapping_sub(flow.past.seen);
        let timeout = self.profiles.timeouts[usize::from(flow.class)];
        if idle < timeout { Ok(()) } else { Err(LeftOut::Expired) }
    }

    /// Prefetches what [`Self::adopt`] of a flow reads some flows later.
    pub fn prefetch(&self, flow: &FormerFlow) {
        self.owner.prefetch(&flow.key, flow.reply_key.as_ref());
    }

    /// Prefetches where the index has a key, or will have it.
    pub fn prefetch_key(&self, key: &FlowKey) {
        self.owner.prefetch(key, None);
    }

    /// Creates a flow that a former process had, with what it uses if it is translated. Limits count it and refuse
    /// nothing. `epoch`: of rules that are in force no longer. Its id; `None`: there is no room.
    pub fn adopt(&mut self, flow: &FormerFlow, uses: Option<Uses>, epoch: u16) -> Option<u32> {
        let FormerFlow { class, flags, zone_pair, tcp, past, .. } = *flow;
        let new = NewFlow {
            epoch,
            class,
            flags,
            zone_pair,
            tcp,
            ..NewFlow::new(flow.key, flow.reply_key)
        };
        let timeout = self.profiles.timeouts[usize::from(class)];
        let look = past.seen.wrapping_add(timeout.min(1 << 30));
        let Ok(Created::New(id)) = self.owner.adopt(&new, &past, look) else { return None };
        if let Some(uses) = uses {
            self.flows.note_translated(true);
            self.note_uses(id, uses);
        }
        self.recount(id);
        Some(id)
    }

    /// A flow was adopted.
    pub fn note_adopted(&self) {
        self.count(|counts| counts.adopted.add(1));
    }

    /// A flow was left out.
    pub fn note_left_out(&self) {
        self.count(|counts| counts.left_out.add(1));
    }
}
