//! Who may send to a mapping: filters, and the remote ends of PEER; and mappings for other hosts.

use stoa_forwarder::nat::Filtering;

use super::*;

const NOT_LET_IN: &str = "nat44-no-mapping";

#[test]
fn filters_let_in_whom_they_name() {
    for filtering in [Filtering::AddressAndPort, Filtering::Anyone] {
        let mut lab = lab(NatPolicy { filtering, ..pool_policy(control()) });
        let one = map(UDP, 4000).filter(128, host4(2), 9);
        let external = ask(&mut lab, &one).external;
        passed(&mut lab, 2, &inward(9, external), "west");
        refused(&mut lab, 2, &inward(10, external), NOT_LET_IN);
        // One more is added to those that there are.
        assert_eq!(result(&mut lab, &map(UDP, 4000).filter(128, host4(2), 10)), SUCCESS);
        passed(&mut lab, 2, &inward(10, external), "west");
        refused(&mut lab, 2, &inward(11, external), NOT_LET_IN);
        assert_eq!(mappings(&mut lab)[0].leases[0].peers.len(), 2);
        // A renewal without filters keeps them.
        assert_eq!(result(&mut lab, &map(UDP, 4000)), SUCCESS);
        refused(&mut lab, 2, &inward(11, external), NOT_LET_IN);
        // In place of them, any port of a network.
        let other = map(UDP, 4000).filter(0, host4(2), 0).filter(120, host4(2), 0);
        assert_eq!(result(&mut lab, &other), SUCCESS);
        passed(&mut lab, 2, &inward(12, external), "west");
        let listed = mappings(&mut lab);
        let peer = &listed[0].leases[0].peers[0];
        assert_eq!((peer.prefix.as_ref().unwrap().length, peer.port), (24, 0));
        // None at all: anybody.
        assert_eq!(result(&mut lab, &map(UDP, 4000).filter(0, host4(2), 0)), SUCCESS);
        passed(&mut lab, 2, &inward(13, external), "west");
    }
}

#[test]
fn filters_have_a_limit_and_change_nothing_beyond() {
    let mut lab = lab(pool_policy(control()));
    let some = |from: u16| {
        (from..from + 5).fold(map(UDP, 4000), |it, port| it.filter(128, host4(2), port))
    };
    let external = ask(&mut lab, &some(1)).external;
    assert_eq!(result(&mut lab, &some(100)), 13, "EXCESSIVE_REMOTE_PEERS");
    refused(&mut lab, 2, &inward(100, external), NOT_LET_IN);
    passed(&mut lab, 2, &inward(5, external), "west");
    // Those that there are already need no room.
    assert_eq!(result(&mut lab, &some(1)), SUCCESS);
    // No filter ends with a mapping.
    let end = Ask { lifetime: 0, ..map(UDP, 4000) }.filter(128, host4(2), 1);
    assert_eq!(result(&mut lab, &end), 6, "MALFORMED_OPTION");
}

#[test]
fn mappings_with_remote_ends_have_a_limit() {
    let mut lab = lab(pool_policy(control()));
    lab.state().limit_remote_ends(2);
    let filtered = |port| map(UDP, port).filter(128, host4(2), 9);
    let external: Vec<_> = (1..=3).map(|it| ask(&mut lab, &map(UDP, it)).external).collect();
    // A renewal with a filter is one more, too.
    assert_eq!([1, 2, 3].map(|it| result(&mut lab, &filtered(it))), [SUCCESS, SUCCESS, 8]);
    refused(&mut lab, 2, &inward(10, external[1]), NOT_LET_IN);
    passed(&mut lab, 2, &inward(10, external[2]), "west");
    assert_eq!(limit_row(&mut lab, "nat-remote-ends"), (2, 2, 1));
    assert_eq!(limit_row(&mut lab, "nat-leases").2, 0, "it is another limit");
    // Those that have some may have more of them, and a plain renewal is none.
    let more = map(UDP, 2).filter(128, host4(2), 11);
    assert_eq!([more, map(UDP, 3)].map(|it| result(&mut lab, &it)), [SUCCESS; 2]);
    passed(&mut lab, 2, &inward(11, external[1]), "west");
    // One that lets anybody in again makes room. PEER needs some, although the port is open: the port may close.
    assert_eq!(result(&mut lab, &map(UDP, 1).filter(0, host4(2), 0)), SUCCESS);
    assert_eq!([3, 4].map(|it| result(&mut lab, &peer(it, 9))), [SUCCESS, 8]);
    assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 3) }), SUCCESS);
    assert_eq!(limit_row(&mut lab, "nat-remote-ends"), (2, 2, 2));
}

fn peer(internal: u16, port: u16) -> Ask {
    Ask { opcode: 2, remote: (host4(2), port), ..map(UDP, internal) }
}

#[test]
fn peer_opens_a_mapping_to_one_end() {
    let mut lab = lab(pool_policy(control()));
    let answer = ask(&mut lab, &peer(4000, 9));
    assert_eq!((answer.result, answer.lifetime), (SUCCESS, 3_600));
    passed(&mut lab, 2, &inward(9, answer.external), "west");
    refused(&mut lab, 2, &inward(10, answer.external), NOT_LET_IN);
    // One more of the same internal end, and a mapping for anybody.
    assert_eq!(ask(&mut lab, &peer(4000, 10)).external, answer.external);
    passed(&mut lab, 2, &inward(10, answer.external), "west");
    assert_eq!(ask(&mut lab, &map(UDP, 4000)).external, answer.external);
    passed(&mut lab, 2, &inward(11, answer.external), "west");
    let kinds: Vec<_> = mappings(&mut lab)[0].leases.iter().map(|it| it.kind.clone()).collect();
    assert_eq!(kinds, ["map", "peer", "peer"]);
    // PEER shortens nothing, and MAP ends nothing of PEER.
    assert_eq!(ask(&mut lab, &Ask { lifetime: 0, ..peer(4000, 9) }).lifetime, 3_600);
    assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 4000) }), SUCCESS);
    refused(&mut lab, 2, &inward(12, answer.external), NOT_LET_IN);
    assert_eq!(result(&mut lab, &Ask { lifetime: 0, ..map(UDP, 4000) }), NOT_AUTHORIZED);
    let foreign = Ask { nonce: [9; 12], ..peer(4000, 9) };
    assert_eq!(result(&mut lab, &foreign), NOT_AUTHORIZED);
}

#[test]
fn all_leases_of_an_internal_end_have_one_holder() {
    let foreign = |asked: Ask| Ask { nonce: [9; 12], ..asked };
    // Who forges the address of the host cannot add to its filters, nor open what it has for one end.
    let filtered = map(UDP, 4000).filter(128, host4(2), 9);
    for (own, other) in [(filtered, peer(4000, 10)), (peer(4000, 9), map(UDP, 4000))] {
        let mut lab = lab(pool_policy(control()));
        let external = ask(&mut lab, &own).external;
        assert_eq!(result(&mut lab, &foreign(other.clone())), NOT_AUTHORIZED);
        refused(&mut lab, 2, &inward(10, external), NOT_LET_IN);
        // Nor by NAT-PMP.
        let by_pmp = [0, 1, 0, 0, 15, 160, 0, 0, 0, 0, 14, 16];
        assert_eq!(exchange(&mut lab, 1, &by_pmp)[3], NOT_AUTHORIZED);
        refused(&mut lab, 2, &inward(10, external), NOT_LET_IN);
        assert_eq!(result(&mut lab, &other), SUCCESS, "the holder itself");
        passed(&mut lab, 2, &inward(10, external), "west");
        // Another internal end is another matter.
        let apart = foreign(Ask { internal: 4001, ..map(UDP, 0) });
        assert_eq!(result(&mut lab, &apart), SUCCESS);
    }
}

#[test]
fn peer_restores_an_external_end_or_fails() {
    let mut lab = lab(pool_policy(control()));
    let lost = |internal| Ask { external: (POOL, 7_000), ..peer(internal, 9) };
    assert_eq!(ask(&mut lab, &lost(4000)).external, (POOL, 7_000));
    assert_eq!(result(&mut lab, &lost(4001)), 11, "CANNOT_PROVIDE_EXTERNAL");
    for wrong in [
        Ask { remote: (host4(2), 0), ..peer(4002, 9) },
        Ask { remote: (Ipv4Addr::UNSPECIFIED, 9), ..peer(4002, 9) },
        Ask { internal: 0, ..peer(4002, 9) },
        Ask { protocol: 0, ..peer(4002, 9) },
    ] {
        assert_eq!(result(&mut lab, &wrong), 3, "MALFORMED_REQUEST");
    }
}

#[test]
fn a_host_asks_for_another_where_that_is_allowed() {
    let other = Ipv4Addr::new(10, 0, 1, 77);
    let third = |address: Ipv4Addr| map(UDP, 4000).with(1, &mapped(address));
    let mut off = lab(pool_policy(control()));
    assert_eq!(result(&mut off, &third(other)), 5, "UNSUPP_OPTION");
    let allowed = PortControl { allows_third_party: true, ..control() };
    let subscribers = vec![net(host4(1), 24)];
    let mut lab = lab(NatPolicy { subscribers, ..pool_policy(allowed) });
    assert_eq!(result(&mut lab, &third(other)), SUCCESS);
    assert_eq!(mappings(&mut lab)[0].internal, other.octets());
    assert_eq!(result(&mut lab, &third(host4(1))), 3, "not for itself");
    assert_eq!(result(&mut lab, &third(host4(3))), NOT_AUTHORIZED, "no subscriber");
}
