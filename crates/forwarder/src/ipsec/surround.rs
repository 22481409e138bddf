//! What surrounds an inner packet in ESP before it is encrypted: header and IV in front of it, padding and trailer
//! behind (RFC 4303 section 2).

use std::ptr;

use stoa_crypto::{Authentication, Ivs};
use stoa_engine::vector::prefetch;
use stoa_engine::{VECTOR, Vector};
use stoa_wire::{esp, protocol};

use super::association::Outbound;
use super::esp_encrypt::Associations;
use crate::drops::Drop;

/// Lanes between a prefetch and its use.
const AHEAD: usize = 8;

/// Writes what surrounds the packets of one worker.
pub(super) struct Surround {
    sequences: Box<[u64; VECTOR]>,
    /// `None`: the system gave no random bytes; packets of CBC are dropped.
    ivs: Option<Ivs>,
}

impl Surround {
    pub(super) fn new() -> Self {
        Self { sequences: Box::new([0; VECTOR]), ivs: Ivs::new().ok() }
    }

    /// The sequence numbers of lanes that have an association.
    pub(super) fn sequences(&self) -> &[u64; VECTOR] {
        &self.sequences
    }

    /// Writes header, IV and trailer of all lanes. Lanes in a row with the same association take their sequence numbers
    /// together. A lane that is dropped loses its association.
    pub(super) fn all(&mut self, associations: &mut Associations<'_>, vector: &mut Vector) {
        let lanes = vector.len();
        let mut from = 0;
        while from < lanes {
            let Some(association) = associations[from] else {
                from += 1;
                continue;
            };
            let is_of =
                |lane: &usize| associations[*lane].is_some_and(|it| ptr::eq(it, association));
            let end = (from + 1..lanes).find(|lane| !is_of(lane)).unwrap_or(lanes);
            let (first, mut bytes) = (association.take((end - from) as u64), 0);
            for (lane, sequence) in (from..end).zip(first..) {
                prefetch_end(vector, lane + AHEAD);
                self.sequences[lane] = sequence;
                let inner = u64::from(vector.length[lane]);
                match self.lane(vector, lane, (association, sequence)) {
                    Ok(()) => bytes += inner,
                    Err(reason) => {
                        associations[lane] = None;
                        vector.next[lane] = reason.next();
                    }
                }
            }
            association.count(bytes);
            from = end;
        }
    }

    /// Writes header, IV and trailer of a lane.
    #[inline]
    fn lane(
        &mut self,
        vector: &mut Vector,
        lane: usize,
        (association, sequence): (&Outbound, u64),
    ) -> Result<(), Drop> {
        if sequence > association.last() {
            return Err(Drop::EspSequence);
        }
        let shape = association.shape;
        let (offset, payload) =
            (usize::from(vector.offset[lane]), usize::from(vector.length[lane]));
        let start = offset.checked_sub(shape.front.into()).ok_or(Drop::TunnelHeadroom)?;
        let whole = shape.length(payload);
        let packet = vector.buffer_mut(lane).get_mut(start..start + whole);
        let packet = packet.ok_or(Drop::TunnelHeadroom)?;
        let text = whole - usize::from(shape.tag);
        let (front, inner) = packet.split_at_mut(shape.front.into());
        let next_header = inner.first().map_or(0, |first| protocol_of(*first));
        self.write_front(front, (association, sequence))?;
        let trailer = packet.get_mut(usize::from(shape.front) + payload..text);
        let trailer = trailer.ok_or(Drop::TunnelHeadroom)?;
        esp::build_trailer(trailer, next_header).map_err(|_| Drop::TunnelHeadroom)?;
        (vector.offset[lane], vector.length[lane]) = (start as u16, whole as u16);
        Ok(())
    }

    /// Writes the ESP header and the IV.
    #[inline(always)]
    fn write_front(
        &mut self,
        front: &mut [u8],
        (association, sequence): (&Outbound, u64),
    ) -> Result<(), Drop> {
        let header = (u64::from(association.spi) << 32 | u64::from(sequence as u32)).to_be_bytes();
        let (start, iv) = front.split_first_chunk_mut().ok_or(Drop::TunnelHeadroom)?;
        *start = header;
        if association.shape.authentication == Authentication::Hmac {
            let ivs = self.ivs.as_mut().ok_or(Drop::EspEngine)?;
            if let Some(iv) = iv.first_chunk_mut() {
                *iv = ivs.next_iv();
            }
        } else if let Some(iv) = iv.first_chunk_mut() {
            // It must only be different for each packet: its number (RFC 4106 section 3.1, RFC 7634 section 2).
            *iv = sequence.to_be_bytes();
        }
        Ok(())
    }
}

/// Prefetches where the trailer of a lane will be, in use or not.
#[inline(always)]
fn prefetch_end(vector: &Vector, lane: usize) {
    if lane < vector.len() {
        prefetch(vector.bytes(lane).as_ptr_range().end);
    }
}

/// The next header of an inner packet with this first byte.
#[inline(always)]
fn protocol_of(first: u8) -> u8 {
    if first >> 4 == 4 { protocol::IP4 } else { protocol::IP6 }
}
