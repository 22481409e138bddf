//! The order of rules, and those that are refused.

use super::*;
use crate::control::desired::DesiredState;

fn rule(name: &str, after: &str) -> v1::AclRule {
    let (acl, name, after) = ("edge".to_owned(), name.to_owned(), after.to_owned());
    v1::AclRule { acl, name, after, family: 4, ..v1::AclRule::default() }
}

fn parsed(acl_rules: Vec<v1::AclRule>) -> Result<DesiredState, Vec<String>> {
    let parsed = DesiredState::parse(&v1::Desired { acl_rules, ..v1::Desired::default() });
    parsed.map_err(|all| all.into_iter().map(|it| format!("{} {}", it.path, it.cause)).collect())
}

#[test]
fn rules_are_in_the_order_of_their_predecessors() {
    let desired = parsed(vec![rule("c", "a"), rule("a", "b"), rule("b", "")]).unwrap();
    let order: Vec<_> = desired.acl_rules_of("edge").iter().map(|(name, _)| *name).collect();
    assert_eq!(order, ["b", "a", "c"]);
    assert!(desired.acl_rules_of("other").is_empty());
    for wrong in [
        vec![rule("a", "b"), rule("b", "a")],
        vec![rule("a", ""), rule("b", "")],
        vec![rule("a", ""), rule("b", "c")],
        vec![rule("a", ""), rule("b", "b")],
    ] {
        assert_eq!(parsed(wrong).unwrap_err().len(), 1);
    }
}

#[test]
fn invalid_rules_are_refused() {
    let with = |change: fn(&mut v1::AclRule)| {
        let mut rule = rule("a", "");
        change(&mut rule);
        parsed(vec![rule]).err().unwrap_or_default().len()
    };
    assert_eq!(with(|_| {}), 0);
    let wrong: [fn(&mut v1::AclRule); 19] = [
        |it| (it.stateful, it.action) = (true, v1::AclAction::AclDrop.into()),
        |it| it.family = 5,
        |it| it.acl.clear(),
        |it| it.dscp = Some(64),
        |it| it.protocols = vec![6, 256],
        |it| it.tcp_flags = 2,
        |it| it.action = 7,
        |it| it.fragment = 7,
        |it| {
            it.protocols = vec![17];
            it.source_ports = vec![v1::PortRange { first: 9, last: 8 }];
        },
        |it| it.source_ports = vec![v1::PortRange { first: 1, last: 8 }],
        |it| {
            it.protocols = vec![6, 47];
            it.source_ports = vec![v1::PortRange { first: 8, last: 8 }];
        },
        |it| it.icmp_type = Some(8),
        |it| (it.icmp_type, it.protocols) = (Some(8), vec![58]),
        |it| (it.tcp_flags_mask, it.protocols) = (2, vec![17]),
        |it| (it.tcp_flags_mask, it.protocols) = (2, vec![6, 17]),
        |it| {
            (it.tcp_flags_mask, it.protocols) = (2, vec![6]);
            it.fragment = v1::AclFragment::LaterFragment.into();
        },
        |it| it.length = Some(v1::PortRange { first: 0, last: 65_536 }),
        |it| it.sources = vec![v1::Prefix { address: vec![10, 0, 0, 1], length: 8 }],
        |it| {
            it.protocols = vec![17];
            it.source_ports = vec![v1::PortRange { first: 8, last: 8 }; 513];
            it.destination_ports = vec![v1::PortRange { first: 8, last: 8 }; 512];
        },
    ];
    for (at, change) in wrong.into_iter().enumerate() {
        assert_eq!(with(change), 1, "{at}");
    }
    assert_eq!(parsed(vec![rule("a", ""), rule("a", "")]).unwrap_err().len(), 1);
}
