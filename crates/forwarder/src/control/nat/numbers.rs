//! Numbers of policies, static mappings and backends. A number follows from what it stands for, so that a forwarder
//! that is started again gives the flows of the former one ([`crate::flow::adoption`]) to the same policy.

use std::collections::BTreeSet;

use prost::Message;
use stoa_tables::flow_hash::mix;

use super::active::{ActiveMapping, ActivePolicy};
use crate::flow::adoption::head::stable_hash;

/// Numbers that are in use.
#[derive(Default)]
pub(super) struct Numbers(BTreeSet<u32>);

fn hash(parts: &[&[u8]]) -> u64 {
    stable_hash(parts.iter().copied().flatten())
}

impl Numbers {
    /// Keeps a number from others.
    pub(super) fn take(&mut self, number: u32) {
        self.0.insert(number);
    }

    /// A number of what has such a hash: not 0, which means none. One hash in 2^32 is that of something else: then the
    /// other one, which comes later, has another number.
    fn of(&mut self, hash: u64) -> u32 {
        let mut number = (hash >> 32) as u32 ^ hash as u32;
        while number == 0 || !self.0.insert(number) {
            number = mix(number).wrapping_add(1);
        }
        number
    }

    /// The number of a policy in a VRF. It is another one after each change that ends flows.
    pub(super) fn of_policy(&mut self, it: &ActivePolicy, vrf: &str) -> u32 {
        let translation = it.policy.translation().message().encode_to_vec();
        let address = it.address.map(u32::to_be_bytes);
        let address = address.as_ref().map_or(&[][..], |it| it);
        self.of(hash(&[b"policy", vrf.as_bytes(), address, &translation]))
    }

    /// Gives a mapping and its backends numbers where they have none.
    pub(super) fn of_mapping(&mut self, it: &mut ActiveMapping) {
        if it.number == 0 {
            it.number = self.of(hash(&[b"mapping", &it.mapping.message().encode_to_vec()]));
        }
        let service = it.mapping.service().message().encode_to_vec();
        for (backend, number) in it.mapping.backends.iter().zip(&mut it.backends) {
            if *number == 0 {
                let end = (backend.address.to_be_bytes(), backend.first_port.to_be_bytes());
                *number = self.of(hash(&[b"backend", &service, &end.0, &end.1]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::control::desired::{NatBackend, NatMapping, NatPolicy};
    use crate::nat::{Allocation, Prefix4};

    fn policy(pools: u32, quota: Option<u32>) -> ActivePolicy {
        let pools = vec![Prefix4 { network: pools, length: 32 }];
        let quotas = [quota, None, None, None];
        ActivePolicy {
            policy: NatPolicy { interface: "out".into(), pools, quotas, ..NatPolicy::default() },
            interface: 1,
            vrf: 0,
            address: None,
            number: 0,
            counts: Arc::default(),
            allocation: Allocation::default(),
            quota: 0,
        }
    }

    #[test]
    fn another_process_gives_the_same_numbers() {
        let [mut one, mut other] = [Numbers::default(), Numbers::default()];
        let first = one.of_policy(&policy(1, None), "");
        let moved = ActivePolicy { interface: 7, vrf: 1, ..policy(1, Some(5)) };
        assert_eq!(other.of_policy(&moved, ""), first, "its limits may differ");
        let others = [
            one.of_policy(&policy(2, None), ""),
            one.of_policy(&policy(1, None), "blue"),
            one.of_policy(&ActivePolicy { address: Some(9), ..policy(1, None) }, ""),
        ];
        assert!(others.iter().all(|it| *it != first && *it != 0), "{others:?} {first}");
        assert_ne!(one.of_policy(&policy(1, None), ""), first, "nothing has two numbers");
    }

    #[test]
    fn backends_keep_their_numbers_beside_others() {
        let backend = |address| NatBackend { address, first_port: 80, weight: 1 };
        let mapping = |backends: Vec<NatBackend>| {
            let numbers = vec![0; backends.len()];
            let mapping = NatMapping { index: 3, backends, ..NatMapping::default() };
            ActiveMapping { mapping, vrf: 0, internal_vrf: 0, number: 0, backends: numbers }
        };
        let [mut one, mut other] =
            [mapping(vec![backend(1), backend(2)]), mapping(vec![backend(2)])];
        Numbers::default().of_mapping(&mut one);
        Numbers::default().of_mapping(&mut other);
        assert_eq!(one.backends[1], other.backends[0]);
        assert!(one.number != other.number && one.backends[0] != one.backends[1]);
    }
}
