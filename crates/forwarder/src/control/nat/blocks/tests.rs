//! Which ranges of blocks policies have, when there are no numbers for all.

use super::*;
use crate::control::desired::NatPolicy;
use crate::nat::Prefix4;

/// A policy with as many blocks as all policies may have, at addresses from this one on.
fn policy(network: u32) -> ActivePolicy {
    let blocks = NatBlocks {
        size: 2_016,
        limit: 4,
        timeout_s: 120,
        length: 32,
        is_deterministic: false,
        quotas: [None; 4],
    };
    let policy = NatPolicy {
        pools: vec![Prefix4 { network, length: 16 }],
        ports: (1_024, u16::MAX),
        blocks: Some(blocks),
        ..NatPolicy::default()
    };
    ActivePolicy {
        policy,
        interface: 1,
        vrf: 0,
        address: None,
        number: 0,
        quota: 0,
        counts: Arc::default(),
        allocation: Allocation::Ports,
    }
}

fn range(policy: &ActivePolicy) -> &BlockRange {
    match &policy.allocation {
        Allocation::Blocks(range, _) => range,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_that_fails_leaves_ranges_in_force() {
    let mut state = NatState::default();
    let [mut first, mut second, mut third] =
        [0x0a00_0000, 0x0a01_0000, 0x0a02_0000].map(|it| [policy(it)]);
    for policies in [&mut first, &mut second] {
        let planned = state.plan_blocks(policies).unwrap();
        state.follow_blocks(planned);
    }
    assert_eq!((range(&first[0]).base, range(&second[0]).base), (0, range(&first[0]).count()));
    let in_force = |state: &NatState| {
        state.blocks.iter().map(|it| (it.is_in_force, it.timeout_s)).collect::<Vec<_>>()
    };
    let before = in_force(&state);
    assert_eq!(before, [(false, 120), (true, 120)]);
    assert_eq!(state.former_ranges().len(), 1, "the blocks of the first one may still be used");
    assert!(state.plan_blocks(&mut third).is_err(), "there are no numbers for a third one");
    assert_eq!(in_force(&state), before);
    // The former configuration again.
    let planned = state.plan_blocks(&mut first).unwrap();
    state.follow_blocks(planned);
    assert_eq!(in_force(&state), [(true, 120), (false, 120)]);
}
