//! Blocks of ports of a policy: `port-set` and `port-quota` of RFC 8512.

use ipnet::Ipv4Net;
use stoa_api::nat::{
    BLOCK_SIZE_LEAST, BLOCK_TIMEOUT_MOST_S, BLOCK_TIMEOUT_S, BLOCKS, BLOCKS_OF_SUBSCRIBER,
    Deterministic, Range4, Refused,
};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::policies::Policy;
use super::values::{Ports, range};
use crate::config::model::{NatPolicy, PortSet};

/// The port-allocation-type of blocks.
const BY_BLOCKS: &str = "port-range-allocation";

/// Blocks without errors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blocks {
    pub(super) message: v1::NatPortBlocks,
}

/// Sources, pools with their numbers, and ports of a policy.
type Space<'a> = (&'a [Ipv4Net], &'a [(u32, Ipv4Net)], Ports);

/// The blocks of a policy, if it allocates ports by blocks.
pub(super) fn blocks(
    path: &str,
    given: &NatPolicy,
    space: Space<'_>,
    errors: &mut ValidationErrors,
) -> Option<Blocks> {
    let set = given.port_set.filter(|_| given.port_allocation_type.as_deref() == Some(BY_BLOCKS));
    let Some(set) = set else {
        without(path, given, errors);
        return None;
    };
    let is_right = sizes(path, set, space, errors);
    let length = given.subscriber_mask.unwrap_or(32);
    if set.deterministic && is_right {
        deterministic(path, (set, length), space, errors);
    }
    Some(Blocks {
        message: v1::NatPortBlocks {
            size: set.port_set_size,
            limit: set.max_port_sets.unwrap_or(BLOCKS_OF_SUBSCRIBER),
            timeout_s: set.port_set_timeout.unwrap_or(BLOCK_TIMEOUT_S),
            subscriber_length: length,
            deterministic: set.deterministic,
        },
    })
}

/// Leaves that mean nothing without blocks. libyang has refused `port-set` itself.
fn without(path: &str, given: &NatPolicy, errors: &mut ValidationErrors) {
    let fix =
        format!("Set port-allocation-type to {BY_BLOCKS} and port-set-size, or remove this leaf.");
    let cause = "the policy has no port sets, so each source is a subscriber";
    if given.subscriber_mask.is_some() {
        errors.add(format!("{path}/stoa-nat:subscriber-mask-v4"), cause, &fix);
    }
}

/// The quotas of a policy, with or without blocks.
pub(super) fn quotas(
    path: &str,
    given: &NatPolicy,
    errors: &mut ValidationErrors,
) -> Vec<v1::NatPortQuota> {
    let set = given.port_set.filter(|_| given.port_allocation_type.as_deref() == Some(BY_BLOCKS));
    let mut quotas = Vec::new();
    for quota in &given.port_quota {
        let path = format!("{path}/port-quota[quota-type='{}']", quota.quota_type);
        if set.is_some_and(|it| it.deterministic) {
            let cause =
                "a deterministic policy gives each subscriber one port set, which is its quota";
            errors.add(path, cause, "Remove it, or change port-set-size.");
            continue;
        }
        if ![0, 1, 6, 17].contains(&quota.quota_type) {
            let cause = format!("ports of protocol {} are not counted apart", quota.quota_type);
            errors.add(
                path,
                cause,
                "Use 0 for all protocols together, 1 for ICMP, 6 for TCP, or 17 for UDP.",
            );
            continue;
        }
        match quota.port_limit.filter(|it| *it > 0) {
            Some(ports) => quotas.push(v1::NatPortQuota { protocol: quota.quota_type, ports }),
            None => errors.add(
                format!("{path}/port-limit"),
                "a quota without ports lets nobody out",
                "Set it to a number from 1 to 65535.",
            ),
        }
    }
    quotas
}

/// Checks the sizes of a port set; whether they are right.
fn sizes(
    path: &str,
    set: PortSet,
    (_, pools, ports): Space<'_>,
    errors: &mut ValidationErrors,
) -> bool {
    let mut is_right = true;
    let count = ports.1 - ports.0 + 1;
    let size = set.port_set_size;
    if size < BLOCK_SIZE_LEAST || size > count {
        is_right = false;
        errors.add(
            format!("{path}/port-set/port-set-size"),
            format!("{size} ports of a port set are not between {BLOCK_SIZE_LEAST} and {count}: the policy has the \
                     ports {}", range(ports)),
            format!("Set it to {BLOCK_SIZE_LEAST} to {count}, such as {}.", count.min(512)),
        );
    }
    if let Some(seconds) =
        set.port_set_timeout.filter(|it| !(1..=BLOCK_TIMEOUT_MOST_S).contains(it))
    {
        errors.add(
            format!("{path}/port-set/port-set-timeout"),
            format!("{seconds} seconds are not between 1 and {BLOCK_TIMEOUT_MOST_S}"),
            format!(
                "Set it to 1 to {BLOCK_TIMEOUT_MOST_S}, or remove it: {BLOCK_TIMEOUT_S} seconds are the default."
            ),
        );
    }
    let addresses: u64 = pools.iter().map(|(_, net)| 1_u64 << (32 - net.prefix_len())).sum();
    let blocks = addresses * u64::from(count / size.max(1));
    if is_right && blocks > BLOCKS {
        is_right = false;
        errors.add(
            format!("{path}/port-set/port-set-size"),
            format!("{blocks} port sets are more than {BLOCKS}"),
            "Use larger port sets, or fewer external addresses.",
        );
    }
    is_right
}

fn range_of(net: &Ipv4Net) -> Range4 {
    (net.network().to_bits(), net.broadcast().to_bits())
}

/// Checks that each subscriber of a deterministic policy has a block.
fn deterministic(
    path: &str,
    (set, length): (PortSet, u32),
    (subscribers, pools, ports): Space<'_>,
    errors: &mut ValidationErrors,
) {
    let lacks = [
        (
            subscribers.is_empty(),
            "subscriber-match",
            "Add a subscriber-match for each prefix of subscribers.",
        ),
        (pools.is_empty(), "external-ip-address-pool", "Add a pool with the external addresses."),
    ];
    for (is_lacking, leaf, fix) in lacks {
        if is_lacking {
            let cause = "a deterministic policy computes port sets from all subscribers and external addresses";
            errors.add(format!("{path}/{leaf}"), cause, fix);
        }
    }
    if subscribers.is_empty() || pools.is_empty() {
        return;
    }
    if let Some(net) = subscribers.iter().find(|it| u32::from(it.prefix_len()) > length) {
        errors.add_about(
            format!("{path}/subscriber-match"),
            format!("{net} is a part of a subscriber: stoa-nat:subscriber-mask-v4 is {length}"),
            "Use shorter prefixes, or a longer mask.",
            &[net],
        );
        return;
    }
    let inside: Vec<Range4> = subscribers.iter().map(range_of).collect();
    let outside: Vec<Range4> = pools.iter().map(|(_, net)| range_of(net)).collect();
    let (Ok(first), Ok(last)) = (u16::try_from(ports.0), u16::try_from(ports.1)) else { return };
    let Ok(size) = u16::try_from(set.port_set_size) else { return };
    let made = Deterministic::new((&inside, length), &outside, ((first, last), size));
    let Err(Refused::TooFewBlocks { subscribers, blocks }) = made else { return };
    let addresses: u64 = outside.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
    let per_address = (blocks / addresses).max(1);
    // How many blocks of an address would be enough.
    let wanted = subscribers.div_ceil(addresses);
    let smaller = u64::from(ports.1 - ports.0 + 1) / wanted;
    let fix = match smaller >= u64::from(BLOCK_SIZE_LEAST) {
        true => format!(
            "Set port-set-size to {smaller} or less, or use {} external addresses.",
            subscribers.div_ceil(per_address)
        ),
        false => format!("Use {} external addresses.", subscribers.div_ceil(per_address)),
    };
    errors.add(
        format!("{path}/port-set/port-set-size"),
        format!(
            "{subscribers} subscribers are more than the {blocks} port sets: {addresses} external addresses with \
             {per_address} port sets of {size} ports each"
        ),
        fix,
    );
}

/// Checks that pools of policies with blocks belong to one policy, and that there are not too many blocks.
pub(super) fn check(policies: &[Policy<'_>], errors: &mut ValidationErrors) {
    for (at, policy) in policies.iter().enumerate() {
        for other in &policies[..at] {
            if policy.vrf != other.vrf || policy.blocks.is_none() && other.blocks.is_none() {
                continue;
            }
            let shared = policy
                .pools
                .iter()
                // Others that overlap are errors of any policies.
                .find(|(_, net)| other.pools.iter().any(|(_, it)| net == it));
            if let Some((pool, net)) = shared {
                errors.add_about(
                    super::paths::pool_path(policy.instance, policy.id, *pool),
                    format!("{net} is a pool of policy {} of instance {}, too: port sets belong to one policy", other.id, other.instance),
                    "Use other external addresses.",
                    &[net],
                );
            }
        }
    }
    let of_policy = |policy: &Policy<'_>| {
        let is_wrong = |it: &Blocks| it.message.deterministic || it.message.size < BLOCK_SIZE_LEAST;
        let blocks = policy.blocks.as_ref().filter(|it| !is_wrong(it))?;
        let addresses: u64 =
            policy.pools.iter().map(|(_, net)| 1_u64 << (32 - net.prefix_len())).sum();
        let ports = policy.ports.1 - policy.ports.0 + 1;
        Some(addresses.max(1) * u64::from(ports / blocks.message.size.max(1)))
    };
    let sum: u64 = policies.iter().filter_map(of_policy).sum();
    // One policy alone has been refused already.
    let is_one = policies.iter().filter_map(of_policy).any(|it| it > BLOCKS);
    if sum > BLOCKS && !is_one {
        errors.add(
            super::paths::INSTANCES,
            format!("{sum} port sets of all policies are more than {BLOCKS}"),
            "Use larger port sets, or fewer external addresses.",
        );
    }
}
