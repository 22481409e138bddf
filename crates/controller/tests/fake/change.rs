//! Changes of the desired state, carried out as a forwarder does.

use stoa_api::v1::{self, Desired};

/// Carries out the changes of one kind of objects.
fn change<T, K: PartialEq>(held: &mut Vec<T>, set: Vec<T>, removed: &[K], key: impl Fn(&T) -> K) {
    held.retain(|object| !removed.contains(&key(object)));
    for new in set {
        match held.iter_mut().find(|object| key(object) == key(&new)) {
            Some(object) => *object = new,
            None => held.push(new),
        }
    }
}

/// The state that a change leads to.
pub fn changed(mut held: Desired, new: v1::DesiredChange) -> Desired {
    change(&mut held.ports, new.ports, &new.removed_ports, |it| it.interface.clone());
    change(&mut held.interfaces, new.interfaces, &new.removed_interfaces, |it| it.name.clone());
    change(&mut held.vrfs, new.vrfs, &new.removed_vrfs, |it| it.name.clone());
    change(&mut held.punts, new.punts, &new.removed_punts, |it| it.class.clone());
    let key = |it: &v1::Route| v1::RouteKey { vrf: it.vrf.clone(), prefix: it.prefix.clone() };
    change(&mut held.routes, new.routes, &new.removed_routes, key);
    let key = |it: &v1::AclRule| v1::AclRuleKey { acl: it.acl.clone(), name: it.name.clone() };
    change(&mut held.acl_rules, new.acl_rules, &new.removed_acl_rules, key);
    let key = |it: &v1::Neighbor| v1::NeighborKey {
        interface: it.interface.clone(),
        address: it.address.clone(),
    };
    change(&mut held.neighbors, new.neighbors, &new.removed_neighbors, key);
    held.reassembly = new.reassembly.or(held.reassembly);
    held.multipath = new.multipath.or(held.multipath);
    held.logging = new.logging.or(held.logging);
    held.workers = new.workers.or(held.workers);
    held.limits = new.limits.or(held.limits);
    held.rules = new.rules.map_or(held.rules, |rules| rules.rules);
    held
}
