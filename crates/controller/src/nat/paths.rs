//! Paths of instances, policies and mappings, for errors and warnings.

/// The path of all instances.
pub(super) const INSTANCES: &str = "/ietf-nat:nat/instances";

/// The path of an instance.
pub(super) fn instance_path(id: u32) -> String {
    format!("{INSTANCES}/instance[id='{id}']")
}

/// The path of a policy.
pub(crate) fn policy_path(instance: u32, policy: u32) -> String {
    format!("{}/policy[id='{policy}']", instance_path(instance))
}

/// The path of the prefix of a pool.
pub(super) fn pool_path(instance: u32, policy: u32, pool: u32) -> String {
    let policy = policy_path(instance, policy);
    format!("{policy}/external-ip-address-pool[pool-id='{pool}']/external-ip-pool")
}

/// The path of a static mapping.
pub(crate) fn mapping_path(instance: u32, index: u32) -> String {
    format!("{}/mapping-table/mapping-entry[index='{index}']", instance_path(instance))
}
