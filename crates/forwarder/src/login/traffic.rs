//! What hosts that have logged in send and get: counters of all logins side by side, for each worker.

use stoa_engine::counters::{Counter, OutOfMemory, zeroed};
use zerocopy::FromZeros;

pub use stoa_api::login::LOGINS;

/// What one worker has counted of a login: a cache line.
#[derive(Default, FromZeros)]
#[repr(C, align(64))]
pub struct Cell {
    in_packets: Counter,
    in_bytes: Counter,
    out_packets: Counter,
    out_bytes: Counter,
    /// The time stamp counter at the last packet that the host has sent; 0: none.
    last: Counter,
}

/// The counters of all workers, by the number of the login.
pub struct LoginTraffic {
    workers: Box<[Box<[Cell]>]>,
}

/// What all workers have counted of a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Packets that the host has sent.
    pub in_packets: u64,
    /// Bytes of these IP packets.
    pub in_bytes: u64,
    /// Packets that it got.
    pub out_packets: u64,
    /// Bytes of these IP packets.
    pub out_bytes: u64,
    /// The time stamp counter at the last packet that it has sent; 0: none.
    pub last: u64,
}

impl Sum {
    /// The difference to an earlier sum.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            in_packets: self.in_packets.wrapping_sub(before.in_packets),
            in_bytes: self.in_bytes.wrapping_sub(before.in_bytes),
            out_packets: self.out_packets.wrapping_sub(before.out_packets),
            out_bytes: self.out_bytes.wrapping_sub(before.out_bytes),
            last: if self.last == before.last { 0 } else { self.last },
        }
    }
}

impl LoginTraffic {
    /// Counters of [`LOGINS`] logins. Memory is touched when it is used.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(workers: usize) -> Result<Self, OutOfMemory> {
        let workers = (0..workers).map(|_| zeroed(LOGINS)).collect::<Result<_, _>>()?;
        Ok(Self { workers })
    }

    /// All workers together.
    pub fn sum(&self, login: u32) -> Sum {
        let cells = self.workers.iter().filter_map(|cells| cells.get(login as usize));
        cells.fold(Sum::default(), |sum, cell| Sum {
            in_packets: sum.in_packets.wrapping_add(cell.in_packets.get()),
            in_bytes: sum.in_bytes.wrapping_add(cell.in_bytes.get()),
            out_packets: sum.out_packets.wrapping_add(cell.out_packets.get()),
            out_bytes: sum.out_bytes.wrapping_add(cell.out_bytes.get()),
            last: sum.last.max(cell.last.get()),
        })
    }
}

/// Sums packets of one login, which neighbouring packets of a vector often have, before it counts them.
pub(super) struct Tally<'a> {
    cells: &'a [Cell],
    is_out: bool,
    now: u64,
    login: u32,
    packets: u64,
    bytes: u64,
}

/// No login.
pub(super) const NONE: u32 = u32::MAX;

impl<'a> Tally<'a> {
    pub(super) fn new(traffic: &'a LoginTraffic, worker: usize, is_out: bool, now: u64) -> Self {
        let cells = traffic.workers.get(worker).map_or(&[][..], |cells| cells);
        Self { cells, is_out, now, login: NONE, packets: 0, bytes: 0 }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, login: u32, length: u16) {
        if self.login != login {
            self.count();
            self.login = login;
        }
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + u64::from(length));
    }

    /// Writes what was summed.
    pub(super) fn count(&mut self) {
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        let Some(cell) = self.cells.get(self.login as usize) else { return };
        let (of_packets, of_bytes) = match self.is_out {
            true => (&cell.out_packets, &cell.out_bytes),
            false => (&cell.in_packets, &cell.in_bytes),
        };
        of_packets.add(packets);
        of_bytes.add(bytes);
        if !self.is_out {
            cell.last.set(self.now);
        }
    }
}
