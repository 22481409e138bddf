//! The flows of the former process, in the numbers and ticks of this one.

use stoa_tables::flow_table::{FormerFlow, FormerTable, Past, Reading};
use stoa_warm_restart::{FormerArrays, FormerWords};

use super::LeftOut;
use super::head::{self, Names};
use crate::flow::tracker::standby_rule;

/// How reading of a table has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Late,
    Unreadable,
}

/// Arrays of a table.
const ARRAYS: usize = 4;
/// Words of a line.
const LINE: u64 = 16;
/// Seconds that the clocks of workers may differ by.
const AHEAD: u32 = 60;

/// The tables of a former process.
#[derive(Debug)]
pub struct FormerFlows {
    tables: [FormerTable; 2],
    words: FormerWords,
    names: [Names; 2],
    /// Its tick now, and that of this process.
    ticks: [u32; 2],
}

impl FormerFlows {
    /// Those that lie in this memory; `None`: it has others. `names`: of this process; `tick`: now.
    pub fn of(former: FormerArrays, names: Names, tick: u32) -> Option<Self> {
        let head = head::read(&former)?;
        let [four, six] = head.capacities;
        let tables = [FormerTable::of(&four)?, FormerTable::of(&six)?];
        let words = former.with_words(tables.iter().flat_map(FormerTable::words))?;
        let ticks = [(head.now_ms / 1000) as u32, tick];
        Some(Self { tables, words, names: [head.names, names], ticks })
    }

    /// Reads all lines of a family, until it is late.
    pub(super) fn read(
        &self,
        is_ip4: bool,
        is_late: impl Fn() -> bool,
        mut each: impl FnMut(Reading),
    ) -> End {
        let family = usize::from(!is_ip4);
        let (table, first_array) = (&self.tables[family], family * ARRAYS);
        let mut next = 0;
        while let Some(written) = self.words.written(first_array, next) {
            let (mut first, end) = (written.start / LINE, written.end.div_ceil(LINE));
            while first < end {
                if is_late() {
                    return End::Late;
                }
                let last = end.min(first + 4_096);
                // Ids beyond those of the table are none.
                let ids = u32::try_from(first).unwrap_or(u32::MAX)
                    ..u32::try_from(last).unwrap_or(u32::MAX);
                let read =
                    |array, at, into: &mut [u32]| self.words.read(first_array + array, at, into);
                if !table.read(ids, read, &mut each) {
                    return End::Unreadable;
                }
                first = last;
            }
            next = end * LINE;
        }
        End::Complete
    }

    /// A flow in the numbers and ticks of this process.
    pub(super) fn translate(&self, flow: &FormerFlow) -> Result<FormerFlow, LeftOut> {
        let [before, now] = &self.names;
        let [was, is] = self.ticks;
        let ago = |tick: u32| {
            let ago = was.wrapping_sub(tick);
            // The clock of another worker may have been ahead.
            if ago.wrapping_add(AHEAD) < AHEAD { 0 } else { ago }
        };
        let Past { start, seen, counters, rule } = flow.past;
        let was_standby = rule == standby_rule(seen);
        let [start, seen] = [ago(start), ago(seen)].map(|it| is.wrapping_sub(it));
        if is.wrapping_sub(seen) > 1 << 30 || is.wrapping_sub(start) < is.wrapping_sub(seen) {
            return Err(LeftOut::Damaged);
        }
        // Rules have other numbers now.
        let rule = if was_standby { standby_rule(seen) } else { 0 };
        let past = Past { start, seen, counters, rule };
        Ok(FormerFlow { past, ..before.translate(now, flow)? })
    }
}
