//! Lanes whose flows other workers own.

use stoa_engine::vector::LaneSet;
use stoa_engine::{Context, VECTOR, Vector};

/// The lanes of a vector that go to the owners of their flows.
pub struct Foreign(Vec<(u8, u8)>);

impl Foreign {
    /// Without lanes, with room for those of a vector.
    pub fn new() -> Self {
        Self(Vec::with_capacity(VECTOR))
    }

    /// Adds a lane, whose flow the worker with this number owns.
    #[inline]
    pub fn push(&mut self, lane: usize, owner: u8) {
        self.0.push((lane as u8, owner));
    }

    /// The lanes, with the numbers of the owners.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        self.0.iter().map(|(lane, owner)| (usize::from(*lane), *owner))
    }

    /// Hands all lanes to the owners of their flows.
    #[inline]
    pub fn hand_over(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        while let Some((_, owner)) = self.0.first().copied() {
            let mut lanes = LaneSet::first_of(0);
            self.0.retain(|(lane, of)| {
                if *of == owner {
                    lanes.insert((*lane).into());
                }
                *of != owner
            });
            cx.hand_over(vector, &lanes, owner.into());
        }
    }
}

impl Default for Foreign {
    fn default() -> Self {
        Self::new()
    }
}
