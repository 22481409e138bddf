//! Sets of attributes, each held once: paths name them by number.

use hashbrown::HashMap;

use crate::Attributes;

/// All sets that are in use.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    /// With how many paths hold it; 0: free.
    list: Vec<(Attributes, u32)>,
    numbers: HashMap<Attributes, u32>,
    free: Vec<u32>,
}

impl Sets {
    /// The set of that number, which has to be held.
    pub fn get(&self, number: u32) -> &Attributes {
        &self.list[number as usize].0
    }

    /// The number of a set, new if need be. Nobody holds it yet: [`Sets::hold`] it, or [`Sets::tidy`].
    pub fn number(&mut self, set: &Attributes) -> u32 {
        if let Some(number) = self.numbers.get(set) {
            return *number;
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = (*set, 0);
                number
            }
            None => {
                self.list.push((*set, 0));
                // As many as there are paths, and these are counted in 32 bits.
                u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(*set, number);
        number
    }

    /// One more path holds it.
    pub fn hold(&mut self, number: u32) {
        self.list[number as usize].1 += 1;
    }

    /// One path less holds it.
    pub fn release(&mut self, number: u32) {
        let (_, holders) = &mut self.list[number as usize];
        *holders -= 1;
        self.tidy(number);
    }

    /// Forgets it when nobody holds it.
    pub fn tidy(&mut self, number: u32) {
        let (set, holders) = &self.list[number as usize];
        if *holders == 0 && self.numbers.remove(set).is_some() {
            self.free.push(number);
        }
    }

    /// How many are in use.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        let entry = size_of::<(Attributes, u32)>();
        self.list.capacity() * entry + self.numbers.allocation_size() + self.free.capacity() * 4
    }
}
