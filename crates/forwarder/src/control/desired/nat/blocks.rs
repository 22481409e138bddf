//! Blocks of ports of a policy, checked.

use stoa_api::nat::{
    BLOCK_SIZE_LEAST, BLOCK_TIMEOUT_MOST_S, BLOCK_TIMEOUT_S, BLOCKS, BLOCKS_OF_SUBSCRIBER,
    BLOCKS_OF_SUBSCRIBER_MOST, SUBSCRIBER_LENGTH_LEAST,
};
use stoa_api::v1;

use super::{NatPolicy, ValidationErrors, Wrong, policy_path};

/// Protocols with a quota of their own, in the order of [`NatBlocks::quotas`]; the last one: all together.
const PROTOCOLS: [u32; 4] = [6, 17, 1, 0];

/// Blocks of ports for subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatBlocks {
    /// Ports of a block.
    pub size: u16,
    /// Blocks of a subscriber, at most.
    pub limit: u32,
    /// Seconds for which an unused block stays with its subscriber.
    pub timeout_s: u32,
    /// Prefix length of a subscriber.
    pub length: u8,
    /// Whether blocks follow from addresses.
    pub is_deterministic: bool,
    /// Ports of a subscriber, at most: of TCP, UDP, ICMP, and in all.
    pub quotas: [Option<u32>; 4],
}

impl NatBlocks {
    /// The same without what does not matter to flows that exist.
    pub(super) fn without_limits(&self) -> Self {
        Self { limit: 0, timeout_s: 0, quotas: [None; 4], ..self.clone() }
    }

    /// As a message of the contract, with all defaults filled in.
    pub(super) fn message(&self) -> v1::NatPortBlocks {
        v1::NatPortBlocks {
            size: self.size.into(),
            limit: self.limit,
            timeout_s: self.timeout_s,
            subscriber_length: self.length.into(),
            deterministic: self.is_deterministic,
        }
    }
}

/// Quotas as messages of the contract, by protocol.
pub(super) fn messages(quotas: [Option<u32>; 4]) -> Vec<v1::NatPortQuota> {
    let all = PROTOCOLS.into_iter().zip(quotas);
    let mut all: Vec<_> = all
        .filter_map(|(protocol, ports)| Some(v1::NatPortQuota { protocol, ports: ports? }))
        .collect();
    all.sort_by_key(|it| it.protocol);
    all
}

fn within(value: u32, (least, most): (u32, u32), what: &str) -> Result<u32, Wrong> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let cause = format!("has {value} as {what}, which is not between {least} and {most}");
    Err((cause, "Use a number within the range."))
}

/// Checks quotas.
pub(super) fn checked_quotas(quotas: &[v1::NatPortQuota]) -> Result<[Option<u32>; 4], Wrong> {
    let mut of_protocol = [None; 4];
    for it in quotas {
        let at = PROTOCOLS.iter().position(|protocol| *protocol == it.protocol);
        let Some(quota) = at.and_then(|at| of_protocol.get_mut(at)) else {
            let cause = format!("has a quota of protocol {}", it.protocol);
            return Err((cause, "Use protocol 1, 6, 17, or 0 for all."));
        };
        *quota = Some(within(it.ports, (1, u16::MAX.into()), "ports of a quota")?);
    }
    Ok(of_protocol)
}

/// Checks blocks and quotas of a policy with these ports and so many external addresses.
pub(super) fn checked(
    (blocks, quotas): (Option<&v1::NatPortBlocks>, [Option<u32>; 4]),
    ((first, last), addresses): ((u16, u16), u64),
) -> Result<Option<NatBlocks>, Wrong> {
    let Some(blocks) = blocks else { return Ok(None) };
    let or = |value: u32, default| if value == 0 { default } else { value };
    let ports = u32::from(last - first) + 1;
    let size =
        within(blocks.size, (BLOCK_SIZE_LEAST, ports.min(u16::MAX.into())), "port-set-size")?;
    let limit = or(blocks.limit, BLOCKS_OF_SUBSCRIBER);
    let limit = within(limit, (1, BLOCKS_OF_SUBSCRIBER_MOST), "max-port-sets")?;
    let timeout_s = or(blocks.timeout_s, BLOCK_TIMEOUT_S);
    let timeout_s = within(timeout_s, (1, BLOCK_TIMEOUT_MOST_S), "port-set-timeout")?;
    let length = or(blocks.subscriber_length, 32);
    let length = within(length, (SUBSCRIBER_LENGTH_LEAST, 32), "bits of a subscriber")?;
    if addresses * u64::from(ports / size) > BLOCKS {
        let cause = format!("has more than {BLOCKS} port sets");
        return Err((cause, "Use larger port sets, or fewer external addresses."));
    }
    if blocks.deterministic && quotas != [None; 4] {
        let cause = "is deterministic, and has quotas".to_owned();
        return Err((cause, "Remove the quotas: the port set is what a subscriber may have."));
    }
    Ok(Some(NatBlocks {
        size: size as u16,
        limit,
        timeout_s,
        length: length as u8,
        is_deterministic: blocks.deterministic,
        quotas,
    }))
}

/// Checks what policies with blocks have in common.
pub(super) fn check_all(policies: &[NatPolicy], errors: &mut ValidationErrors) {
    let mut sum = 0;
    for policy in policies {
        let Some(blocks) = policy.blocks.as_ref().filter(|it| !it.is_deterministic) else {
            continue;
        };
        let addresses = policy.pools.iter().map(|it| u64::from(it.last() - it.network) + 1);
        let ports = u64::from(policy.ports.1 - policy.ports.0) + 1;
        sum += addresses.sum::<u64>().max(1) * (ports / u64::from(blocks.size));
        if sum > BLOCKS {
            let path = policy_path(policy.instance, policy.policy);
            let cause = format!("has port sets beyond {BLOCKS} of all policies");
            errors.add(path, cause, "Use larger port sets, or fewer external addresses.");
            return;
        }
    }
}
