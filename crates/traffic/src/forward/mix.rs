//! Mixes of frame sizes that router vendors use for measurements.

use std::str::FromStr;
use std::sync::Arc;

use stoa_ports::{Kind, Mix as Packets, Senders};

use super::targets::Table;
use super::{FCS, Ip};
use crate::random::Random;

/// A mix of frame sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// IPv4: 64 B 55 %, 594 B 25 %, 1518 B 20 %.
    Imix1,
    /// IPv4 as in the first and IPv6 as in the third, alternating.
    Imix2,
    /// IPv6: 78 B 58 %, 496 B 3 %, 594 B 24 %, 1518 B 15 %.
    Imix3,
    /// A campus, IPv4: 64 B 45 %, 576 B 25 %, 1500 B 30 %.
    Campus,
}

/// Bytes of a frame with FCS, and how many of 100 packets have this size.
pub(crate) type Sizes = &'static [(u16, usize)];

pub(crate) const SIZES4: Sizes = &[(64, 55), (594, 25), (1518, 20)];
pub(crate) const SIZES_CAMPUS: Sizes = &[(64, 45), (576, 25), (1500, 30)];
pub(crate) const SIZES6: Sizes = &[(78, 58), (496, 3), (594, 24), (1518, 15)];

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "imix1" => Ok(Self::Imix1),
            "imix2" => Ok(Self::Imix2),
            "imix3" => Ok(Self::Imix3),
            "campus" => Ok(Self::Campus),
            _ => Err("give imix1 or campus (IPv4), imix2 (both) or imix3 (IPv6)".to_owned()),
        }
    }
}

impl Mix {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Imix1 => "imix1",
            Self::Imix2 => "imix2",
            Self::Imix3 => "imix3",
            Self::Campus => "campus",
        }
    }

    /// The sizes of its packets of a family.
    fn sizes(self, ip: Ip) -> Sizes {
        match (self, ip) {
            (Self::Campus, Ip::V4) => SIZES_CAMPUS,
            (_, Ip::V4) => SIZES4,
            (_, Ip::V6) => SIZES6,
        }
    }

    /// The address families of its packets.
    pub fn families(self) -> Vec<Ip> {
        match self {
            Self::Imix1 | Self::Campus => vec![Ip::V4],
            Self::Imix2 => vec![Ip::V4, Ip::V6],
            Self::Imix3 => vec![Ip::V6],
        }
    }

    /// Mean frame size in bytes, FCS included.
    pub(super) fn mean(self) -> f64 {
        let families = self.families();
        let bytes = |ip: &Ip| -> usize {
            self.sizes(*ip).iter().map(|(size, share)| usize::from(*size) * share).sum()
        };
        families.iter().map(bytes).sum::<usize>() as f64 / (100 * families.len()) as f64
    }

    /// The packets of the mix for a port and the senders of each table; `share` is (port, ports).
    /// Families alternate; sizes come in a shuffled order that is the same in each run.
    pub(super) fn packets(
        self,
        tables: &[Table],
        senders: &[Option<Arc<Senders>>],
        share: (usize, usize),
    ) -> Arc<Packets> {
        let mut kinds = Vec::new();
        let mut turns: Vec<Vec<u8>> = Vec::new();
        let mut random = Random::new(9);
        for (table, senders) in tables.iter().zip(senders) {
            let destinations = table.destinations(share);
            let mut turn = Vec::new();
            for (size, share) in self.sizes(table.ip) {
                turn.extend(std::iter::repeat_n(kinds.len() as u8, *share));
                let (frame, source) = (size - FCS, table.ip.source());
                let (destinations, senders) = (destinations.clone(), senders.clone());
                kinds.push(Kind { frame, source, destinations, senders });
            }
            random.shuffle(&mut turn);
            turns.push(turn);
        }
        let order = (0..100).flat_map(|at| turns.iter().map(move |turn| turn[at])).collect();
        Arc::new(Packets { kinds, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_shares_sum_to_a_hundred() {
        for sizes in [SIZES4, SIZES6, SIZES_CAMPUS] {
            assert_eq!(sizes.iter().map(|(_, share)| share).sum::<usize>(), 100);
        }
        assert_eq!((Mix::Imix1.mean(), Mix::Campus.mean()), (487.3, 622.8));
        assert_eq!("campus".parse(), Ok(Mix::Campus));
        assert_eq!((Mix::Imix3.mean(), Mix::Imix2.mean()), (430.38, 458.84));
    }
}
