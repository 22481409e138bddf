//! Fields of keys, and the children of a node that a rule belongs to.

use super::layout::Field;
use super::pattern::{Family, Pattern};

/// The values of a field that a rule admits. Bits of the key beyond the field do not count: that a rule
/// admits a value does not mean that a key with this value meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// These bits, with all combinations of the open ones.
    Bits { value: u32, open: u32 },
    /// From the first to the last value; through the end of the field to its beginning if the last is
    /// less.
    Range { first: u32, last: u32, mask: u32 },
}

impl Span {
    fn of(pattern: &Pattern, family: &Family, field: Field) -> Self {
        let mask = (1_u32 << field.bits) - 1;
        let word = usize::from(field.word);
        let (value, care) = (pattern.values[word], pattern.masks[word]);
        if !family.is_range(word) {
            let open = !(care >> field.shift) & mask;
            return Self::Bits { value: value >> field.shift & mask & !open, open };
        }
        let half = field.shift & 16;
        let first = value >> half & 0xffff;
        let last = first + (care >> half & 0xffff);
        let shift = field.shift & 15;
        let above = |number: u32| number >> (shift + field.bits);
        let part = |number: u32| number >> shift & mask;
        let is_some = match above(last) - above(first) {
            0 => true,
            1 => part(last) + 1 < part(first),
            _ => false,
        };
        if is_some {
            Self::Range { first: part(first), last: part(last), mask }
        } else {
            Self::Bits { value: 0, open: mask }
        }
    }

    fn len(&self) -> u32 {
        match *self {
            Self::Bits { open, .. } => 1 << open.count_ones(),
            Self::Range { first, last, mask } => (last.wrapping_sub(first) & mask) + 1,
        }
    }

    #[inline(always)]
    fn for_each(&self, mut each: impl FnMut(u32)) {
        match *self {
            Self::Bits { value, open } => {
                let mut part = 0;
                loop {
                    each(value | part);
                    part = part.wrapping_sub(open) & open;
                    if part == 0 {
                        return;
                    }
                }
            }
            Self::Range { first, last, mask } => {
                let mut value = first;
                loop {
                    each(value);
                    if value == last {
                        return;
                    }
                    value = (value + 1) & mask;
                }
            }
        }
    }
}

/// The children of a node that a rule belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    first: Span,
    second: Span,
    shift: u8,
}

impl Places {
    #[inline]
    pub(super) fn of(pattern: &Pattern, family: &Family, fields: [Field; 2]) -> Self {
        let [first, second] = fields;
        Self {
            first: Span::of(pattern, family, first),
            second: Span::of(pattern, family, second),
            shift: first.bits,
        }
    }

    /// How many.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.first.len() * self.second.len()
    }

    #[inline(always)]
    pub(super) fn for_each(&self, mut each: impl FnMut(usize)) {
        self.second.for_each(|upper| {
            self.first.for_each(|lower| each((upper << self.shift | lower) as usize));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::pattern::IP4;
    use super::*;

    fn places(values: (usize, u32), masks: u32, shift: u8, bits: u8) -> Vec<usize> {
        let mut pattern = Pattern::any(&IP4);
        (pattern.values[values.0], pattern.masks[values.0]) = (values.1, masks);
        let field = Field { word: values.0 as u8, shift, bits };
        let places = Places::of(&pattern, &IP4, [field, Field::default()]);
        let mut all = Vec::new();
        places.for_each(|place| all.push(place));
        assert_eq!(all.len(), places.len() as usize);
        all
    }

    #[test]
    fn a_rule_belongs_to_the_children_that_its_keys_lead_to() {
        // 10.0.0.0/7: the upper eight bits are 10 or 11.
        assert_eq!(places((0, 10 << 24), 0xfe00_0000, 24, 8), [10, 11]);
        assert_eq!(places((0, 10 << 24), 0xfe00_0000, 23, 2), [0, 1, 2, 3]);
        // Destination ports 1024 to 65535, and 250 to 260.
        assert_eq!(places((2, 1024), 64511, 14, 2), [0, 1, 2, 3]);
        assert_eq!(places((2, 250), 10, 4, 4), [15, 0]);
        assert_eq!(places((2, 250), 10, 0, 8), [250, 251, 252, 253, 254, 255, 0, 1, 2, 3, 4]);
        // Source port 80.
        assert_eq!(places((2, 80 << 16), 0xffff, 16, 4), [0]);
    }
}
