//! Interned attribute sets: paths refer to them by index.

use hashbrown::HashMap;

use crate::Attributes;

/// All attribute sets in use.
#[derive(Debug, Default)]
pub(crate) struct AttributeSets {
    /// Each set with its number of references; 0: free.
    list: Vec<(Attributes, u32)>,
    numbers: HashMap<Attributes, u32>,
    free: Vec<u32>,
}

impl AttributeSets {
    /// The set at an index, which must be referenced.
    pub fn get(&self, number: u32) -> &Attributes {
        &self.list[number as usize].0
    }

    /// The index of a set, added if new, with no reference yet: follow with [`AttributeSets::acquire`] or
    /// [`AttributeSets::free_if_unused`].
    pub fn intern(&mut self, set: &Attributes) -> u32 {
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
                // There are at most as many sets as paths, which are counted in 32 bits.
                u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(*set, number);
        number
    }

    /// Adds a reference.
    pub fn acquire(&mut self, number: u32) {
        self.list[number as usize].1 += 1;
    }

    /// Drops a reference.
    pub fn release(&mut self, number: u32) {
        let (_, references) = &mut self.list[number as usize];
        *references -= 1;
        self.free_if_unused(number);
    }

    /// Frees the set when nothing refers to it.
    pub fn free_if_unused(&mut self, number: u32) {
        let (set, references) = &self.list[number as usize];
        if *references == 0 && self.numbers.remove(set).is_some() {
            self.free.push(number);
        }
    }

    /// Number of sets in use.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Allocated bytes.
    pub fn memory(&self) -> usize {
        let entry = size_of::<(Attributes, u32)>();
        self.list.capacity() * entry + self.numbers.allocation_size() + self.free.capacity() * 4
    }
}
