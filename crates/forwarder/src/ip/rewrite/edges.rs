//! The edges of all lanes of `ip4-rewrite` and `ip6-rewrite`, after their kernels.

use stoa_engine::{Next, Vector};

use super::{Exceptions, OUTPUT, TUNNEL};

/// Sets the edges of all lanes, with `rewrite` for exceptions.
#[inline(always)]
pub(super) fn set_edges(
    vector: &mut Vector,
    exceptions: &Exceptions,
    tunnels: &Exceptions,
    mut rewrite: impl FnMut(&mut Vector, usize) -> u16,
) -> Next {
    let lanes = vector.len();
    if *exceptions == [0; _] {
        if tunnels.iter().map(|some| some.count_ones() as usize).sum::<usize>() == lanes {
            return Next::All(TUNNEL);
        }
        for lane in 0..lanes {
            vector.next[lane] = if is_in(tunnels, lane) { TUNNEL } else { OUTPUT };
        }
        return Next::Lanes;
    }
    let mut any = OUTPUT;
    for lane in 0..lanes {
        let next = if is_in(exceptions, lane) {
            rewrite(vector, lane)
        } else if is_in(tunnels, lane) {
            TUNNEL
        } else {
            OUTPUT
        };
        vector.next[lane] = next;
        any |= next;
    }
    if any == OUTPUT { Next::All(OUTPUT) } else { Next::Lanes }
}

/// Whether the bit of a lane is set.
#[inline(always)]
fn is_in(lanes: &Exceptions, lane: usize) -> bool {
    lanes[lane / 16] >> (lane % 16) & 1 == 1
}
