//! Registrations for which clients have asked by a flow of SIP, and which nobody has answered.

/// How many a flow has. The oldest one is forgotten for another one.
const REGISTERS: usize = 6;
/// A word for each.
pub(super) const WORDS: usize = REGISTERS;
/// Bits of a word that are of the number of the request; the others are of its Call-ID.
const REQUEST: u32 = (1 << 12) - 1;

/// The last request of each Call-ID, the newest one first: a client has a Call-ID for each registration (RFC 3261
/// section 10.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u32; REGISTERS]);

fn word(name: u32, request: u32) -> u32 {
    name & !REQUEST | request & REQUEST
}

impl Registers {
    /// A client asks, with the number of a Call-ID and that of the request (`CSeq`). It awaits no answer to an earlier
    /// request of this Call-ID any more.
    pub fn ask(&mut self, name: u32, request: u32) {
        let is_former = |it: &u32| *it & !REQUEST == name & !REQUEST;
        let last = self.0.iter().position(is_former).unwrap_or(REGISTERS - 1);
        if let Some(all) = self.0.get_mut(..=last) {
            all.rotate_right(1);
        }
        if let Some(first) = self.0.first_mut() {
            *first = word(name, request);
        }
    }

    /// Whether an answer is to such a request. It is answered once.
    pub fn answer(&mut self, name: u32, request: u32) -> bool {
        let asked = word(name, request);
        let found = self.0.iter_mut().find(|it| **it == asked && asked != 0);
        found.map(|it| *it = 0).is_some()
    }

    pub(super) fn words(&self) -> [u32; WORDS] {
        self.0
    }

    pub(super) fn of_words(words: [u32; WORDS]) -> Self {
        Self(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: u32 = 1 << 12;

    #[test]
    fn the_last_request_of_a_call_id_is_answered_once() {
        let mut all = Registers::default();
        assert!(!all.answer(0, 0) && !all.answer(NAMES, 1));
        all.ask(NAMES, 1);
        all.ask(2 * NAMES, 7);
        all.ask(NAMES, 2);
        assert!(!all.answer(NAMES, 1) && !all.answer(3 * NAMES, 2));
        assert_eq!([(), ()].map(|()| all.answer(NAMES, 2)), [true, false]);
        assert!(all.answer(2 * NAMES, 7));
        assert_eq!(all, Registers::default());
    }

    #[test]
    fn the_oldest_request_gives_way() {
        let mut all = Registers::default();
        (1..=REGISTERS as u32 + 1).for_each(|at| all.ask(at * NAMES, 1));
        assert_eq!([1, 2, 7].map(|at| all.answer(at * NAMES, 1)), [false, true, true]);
    }
}
