//! Ports that a gateway of SIP has given ends which a flow has announced, if these are others than their own.

use super::calls::End;

/// How many a flow has. The oldest one is forgotten for another one.
const PORTS: usize = 8;
/// A word for each.
pub(super) const WORDS: usize = PORTS;

/// The ends of the host that a flow translates, beside the one of the flow itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports([End; PORTS]);

impl Ports {
    /// The port by which the other end knows one of this host.
    pub fn seen(&self, own: u16) -> Option<u16> {
        self.all().find(|it| it.own == own).map(|it| it.seen)
    }

    /// The port of this host that the other end knows by this one.
    pub fn own(&self, seen: u16) -> Option<u16> {
        self.all().find(|it| it.seen == seen).map(|it| it.own)
    }

    /// Adds one.
    pub fn add(&mut self, end: End) {
        self.0.rotate_right(1);
        if let Some(first) = self.0.first_mut() {
            *first = end;
        }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = End> {
        self.0.into_iter().filter(|it| *it != End::default())
    }

    pub(super) fn words(&self) -> [u32; WORDS] {
        self.0.map(End::word)
    }

    pub(super) fn of_words(words: &[u32; WORDS]) -> Self {
        Self(words.map(End::of_word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_end_gives_way() {
        let mut ports = Ports::default();
        assert_eq!((ports.seen(0), ports.own(0)), (None, None));
        for own in 0..=PORTS as u16 {
            ports.add(End { own, seen: own + 100 });
        }
        assert_eq!((ports.seen(0), ports.own(101)), (None, Some(1)));
        assert_eq!((ports.seen(8), ports.all().count()), (Some(108), PORTS));
        assert_eq!(Ports::of_words(&ports.words()), ports);
    }
}
