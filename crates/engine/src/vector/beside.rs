//! The columns beside a vector, which only some features need: [`flow`](super::flow), [`fields`](super::fields) and
//! [`session`](super::session). Each is known for all lanes or for none. What nobody asks for takes no space in the
//! first-level cache, and lanes that move without any of them pay one test of one byte.

#[cfg(target_arch = "x86_64")]
use super::Vector;
use super::fields::Fields;
use super::lanes::{Lanes, copy};
use crate::column::{Column, Here};

/// The bit of the column `flow` in [`Beside::known`].
pub(super) const FLOW: u8 = 1;
/// The bit of the column `session`.
pub(super) const SESSION: u8 = 2;
/// The bit of the columns `fields`.
pub(super) const FIELDS: u8 = 4;
/// With [`FIELDS`]: some lanes use all words of their addresses.
pub(super) const WIDE: u8 = 8;

/// The columns, and which of them are known.
pub(super) struct Beside {
    /// Of an empty vector, it means nothing.
    pub(super) known: u8,
    /// `None` only while flows are made.
    pub(super) flows: Option<Box<Column<u32>>>,
    pub(super) sessions: Box<Column<u32>>,
    /// `None` only while fields are made.
    pub(super) fields: Option<Box<Fields>>,
}

impl Beside {
    pub(super) fn new() -> Self {
        let column = || Box::new(Column::of(0));
        let fields = Some(Fields::new());
        Self { known: 0, flows: Some(column()), sessions: column(), fields }
    }
}

impl Vector {
    /// Whether a lane takes something along when it moves to `to`.
    #[inline(always)]
    pub(super) fn has_beside(&self, to: &Self) -> bool {
        (self.beside.known | to.beside.known) != 0
    }

    /// Copies the columns beside of lanes that are about to move to the end of `to`; returns what is known of all its
    /// lanes then. Flows and fields are known where those of both are; a packet without a session has the number 0.
    #[inline(never)]
    pub(super) fn copy_beside(&self, here: Here, lanes: &Lanes, to: &mut Self) -> u8 {
        let (from, end) = (&self.beside, to.len);
        let before = if end == 0 { None } else { Some(to.beside.known) };
        let mut known = from.known & before.unwrap_or(FLOW | FIELDS) & (FLOW | FIELDS);
        if known & FLOW != 0
            && let (Some(from), Some(to)) = (&from.flows, &mut to.beside.flows)
        {
            copy(here, from, lanes, to, end);
        }
        if known & FIELDS != 0
            && let (Some(from_fields), Some(to)) = (&from.fields, &mut to.beside.fields)
        {
            from_fields.copy(here, lanes, to, end, from.known & WIDE != 0);
            known |= (from.known | before.unwrap_or(0)) & WIDE;
        }
        let had = before.is_some_and(|before| before & SESSION != 0);
        let sessions = &mut to.beside.sessions;
        if had || from.known & SESSION != 0 {
            known |= SESSION;
            if !had {
                sessions[..end].fill(0);
            }
            if from.known & SESSION != 0 {
                copy(here, &from.sessions, lanes, sessions, end);
            } else {
                sessions[end..end + lanes.count()].fill(0);
            }
        }
        known
    }

    /// Lanes from `from` on came from outside: their flows and fields are not known, and they have no session.
    #[inline(always)]
    pub(super) fn add_beside(&mut self, from: usize) {
        if self.beside.known != 0 {
            self.add_known(from);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_known(&mut self, from: usize) {
        // An empty vector had none.
        self.beside.known &= if from == 0 { 0 } else { SESSION };
        let end = self.len;
        self.beside.sessions[from..end].fill(0);
    }

    /// The packet of a lane is another one from now on.
    #[cold]
    #[inline(never)]
    pub(super) fn reset_beside(&mut self, lane: usize) {
        self.beside.known &= SESSION;
        self.beside.sessions[lane] = 0;
    }
}
