//! Mappings whose flows are refused, and leases.

use super::*;

fn end(port: u16) -> End {
    End { address: 0x0a00_0001, port, protocol: 17, vrf: 0 }
}

#[test]
fn a_mapping_whose_flow_is_refused_ends_at_once() {
    let all = Mappings::new(16, Quotas::new(16, [1, 2]), &Secret([7; 64])).unwrap();
    let mut owner = all.owner(0, 0).unwrap();
    let id = owner.create(&all, (end(1), end(5001)), (3, None), 0).unwrap();
    owner.give_up(&all, id, 0);
    assert_eq!(all.of_internal(end(1), 3).map(|it| it.id), Some(id), "it has a flow");
    all.release(id);
    assert!(all.of_external(end(5001)).is_some(), "a new flow would find it");
    owner.give_up(&all, id, 0);
    assert_eq!((all.of_internal(end(1), 3), all.of_external(end(5001))), (None, None));
    assert!(owner.create(&all, (end(2), end(5001)), (3, None), 0).is_ok(), "its port is free");
    owner.hold_host(&all, (end(5001), 9), 0).unwrap();
    assert!(all.reaches(end(5001), 9));
    assert_eq!((all.live(), all.refused()), (1, 0), "hosts are no mappings");
    all.release_host(end(5001), 9);
    owner.give_up_host(&all, end(5001), 9, 0);
    owner.hold_host(&all, (end(5001), 9), 0).unwrap();
    assert!(all.reaches(end(5001), 9));
}

/// A mapping without flows, of an owner.
fn unused(all: &Mappings, owner: &mut MappingOwner, external: u16) -> u32 {
    let ends = (end(external), end(external));
    let id = owner.create(all, ends, (3, None), 0).unwrap();
    all.release(id);
    id
}

#[test]
fn a_lease_keeps_a_mapping_without_flows() {
    let all = Mappings::new(16, Quotas::new(16, [1, 2]), &Secret([7; 64])).unwrap();
    let mut owner = all.owner(200, 0).unwrap();
    let id = unused(&all, &mut owner, 5001);
    assert_eq!(all.lease_of(id), Lease::No);
    assert!(all.lease(id, true) && all.is_owned_by(id, 200));
    assert_eq!(all.lease_of(id), Lease::Some);
    assert!(all.lease(id, false));
    assert_eq!(all.lease_of(id), Lease::Anybody);
    assert!(!owner.end_one(&all, id, 100), "it is leased");
    assert_eq!(all.of_external(end(5001)).map(|it| it.flows), Some(0));
    // Flows come and go. One that another lease would let in does not come.
    assert!(all.hold_by(id, Lease::Anybody) && all.hold(id));
    assert!(!all.hold_by(id, Lease::Some) && !all.hold_by(id, Lease::No));
    all.release(id);
    assert_eq!(all.of_external(end(5001)).map(|it| it.flows), Some(1));
    assert!(all.end_lease(id) && all.ending(id) == Ending::All, "a flow is left");
    assert_eq!(all.lease_of(id), Lease::No);
    assert!(!owner.end_one(&all, id, 100));
    all.release(id);
    assert!(owner.end_one(&all, id, 100), "an ended lease keeps nothing");
    assert!(!all.lease(id, false) && !all.hold(id) && !all.end_lease(id));
    assert!(!all.hold_by(id, Lease::No), "it is over");
    assert_eq!((all.of_external(end(5001)), all.live()), (None, 0));
    // The next mapping with the number begins without a mark.
    let other = unused(&all, &mut owner, 5002);
    assert!(all.ending(other) == Ending::No && all.lease_of(other) == Lease::No);
}

#[test]
fn flows_of_ended_leases_are_over_when_all_workers_have_looked() {
    let all = Mappings::new(16, Quotas::new(16, [1, 2]), &Secret([7; 64])).unwrap();
    let mut owner = all.owner(200, 0).unwrap();
    let id = unused(&all, &mut owner, 5001);
    assert!(all.lease(id, false) && all.hold(id) && all.end_lease(id));
    assert!(!all.end_lease(id), "once");
    let epoch = all.end_flows_of_leases();
    assert_eq!(all.lease_epoch(), epoch);
    all.note_swept(0, epoch);
    assert!(all.is_swept(1, epoch) && !all.is_swept(2, epoch));
    all.note_swept(1, epoch + 1);
    assert!(all.is_swept(2, epoch));
    all.forget_lease(id);
    assert_eq!(all.ending(id), Ending::No);
    // A new lease in between stays.
    assert!(all.lease(id, true));
    all.forget_lease(id);
    assert_eq!(all.lease_of(id), Lease::Some);
}

#[test]
fn a_narrower_lease_ends_flows_of_others() {
    let all = Mappings::new(16, Quotas::new(16, [1, 2]), &Secret([7; 64])).unwrap();
    let mut owner = all.owner(200, 0).unwrap();
    let id = unused(&all, &mut owner, 5001);
    assert!(all.lease(id, false) && !all.narrow_lease(id), "anybody may send");
    // It has no flow yet: a worker that knows the remote ends of before lets one in.
    assert!(all.lease(id, true) && all.narrow_lease(id) && all.hold_by(id, Lease::Some));
    assert_eq!((all.ending(id), all.lease_of(id)), (Ending::Others, Lease::Some));
    // One more that may send does not keep flows of others.
    assert!(all.lease(id, true));
    assert_eq!(all.ending(id), Ending::Others);
    all.forget_lease(id);
    assert_eq!((all.ending(id), all.lease_of(id)), (Ending::No, Lease::Some));
    // Nor does a new lease for some after the end; one for anybody does.
    assert!(all.end_lease(id) && all.lease(id, true));
    assert_eq!(all.ending(id), Ending::Others);
    assert!(all.lease(id, false));
    assert_eq!(all.ending(id), Ending::No);
}
