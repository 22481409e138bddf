//! Long loops over the desired state let other work of the control thread run.

/// Items between two pauses.
const ITEMS: u32 = 64;

/// Lets other work run; gets the number of items that were handled since the last call.
pub type Pause<'a> = &'a mut dyn FnMut(u32);

/// Counts the items of loops and pauses after some.
pub(in crate::control) struct Pacer<'a> {
    pause: Pause<'a>,
    items: u32,
}

impl<'a> Pacer<'a> {
    pub(in crate::control) fn new(pause: Pause<'a>) -> Self {
        Self { pause, items: 0 }
    }

    /// Counts an item.
    pub(in crate::control) fn item(&mut self) {
        self.items += 1;
        if self.items == ITEMS {
            self.items = 0;
            (self.pause)(ITEMS);
        }
    }
}
