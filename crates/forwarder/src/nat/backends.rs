//! Hosts that share the connections to an external end of a static mapping. A connection stays where its flow is; this
//! chooses for first packets only.

use stoa_tables::flow_hash::mix;

/// A host that shares the connections of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its number: flows have it, as they have that of a policy.
    pub number: u32,
    /// Address.
    pub address: u32,
    /// The port for the first external one.
    pub first_port: u16,
    /// Its part of the connections; 0: it gets no new ones.
    pub weight: u8,
}

impl Backend {
    /// The backend that a connection with this hash gets; `None`: none takes new ones.
    ///
    /// The highest of a score for each (weighted rendezvous hashing): when one goes or comes, only its own connections
    /// move.
    pub(super) fn choose(all: &[Self], hash: u32) -> Option<&Self> {
        let takes = |it: &&Self| it.weight > 0;
        let score = |it: &Self| {
            let ends = mix(it.address.wrapping_mul(0x9e37_79b9) ^ u32::from(it.first_port));
            let uniform = (f64::from(mix(hash ^ ends)) + 0.5) / (f64::from(u32::MAX) + 1.0);
            -f64::from(it.weight) / uniform.ln()
        };
        let scored = all.iter().filter(takes).map(|it| (score(it), it));
        scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, it)| it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(number: u32, weight: u8) -> Backend {
        Backend { number, address: 0x0a00_0000 | number, first_port: 80, weight }
    }

    fn chosen(all: &[Backend]) -> Vec<u32> {
        (0..20_000).map(|at| Backend::choose(all, mix(at)).map_or(0, |it| it.number)).collect()
    }

    #[test]
    fn each_gets_its_part() {
        let all = [backend(1, 10), backend(2, 20), backend(3, 70), backend(4, 0)];
        let chosen = chosen(&all);
        for it in all {
            let part = chosen.iter().filter(|number| **number == it.number).count() / 200;
            assert!(part.abs_diff(it.weight.into()) <= 1, "{part} of {it:?}");
        }
        assert_eq!(Backend::choose(&[backend(1, 0)], 7), None);
        assert_eq!(Backend::choose(&[], 7), None);
    }

    #[test]
    fn only_what_a_removed_one_had_moves() {
        let all = [backend(1, 1), backend(2, 1), backend(3, 1), backend(4, 1)];
        let fewer = [all[0], all[1], all[3]];
        for (before, after) in chosen(&all).into_iter().zip(chosen(&fewer)) {
            assert!(before == 3 || before == after, "{before} {after}");
        }
    }
}
