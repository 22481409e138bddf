//! Mappings whose flows are refused.

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
