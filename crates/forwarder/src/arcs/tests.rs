//! Features are switched at interfaces, or for the whole router.

use super::*;

#[test]
fn features_are_switched_where_they_belong() {
    let (arcs, attributes) = (Arcs::new().unwrap(), Attributes::new().unwrap());
    for node in ["ethernet-noop", "ip4-noop", "ip6-noop", "ip-local-noop", "ip4-origin-noop"] {
        arcs.set(&attributes, ROUTER, node, 1);
        arcs.set(&attributes, 5, node, 1);
    }
    assert_eq!([ROUTER, 5, 6].map(|it| attributes.flags_of(it)), [FEATURES, FEATURES, 0]);
    let off = |arc: &FeatureArc, it| arc.enabled(it) == 1 << arc.features().len();
    assert!(off(&arcs.ip4_origin, 5) && off(&arcs.ip6_origin, ROUTER));
    // Features of the whole router do not go with its first interface.
    arcs.clear(&attributes, ROUTER);
    assert!(!off(&arcs.ip4_origin, ROUTER) && off(&arcs.ip_local, ROUTER));
    assert!(!off(&arcs.ip_local, 5) && !off(&arcs.ethernet_input, 5));
    assert_eq!([ROUTER, 5].map(|it| attributes.flags_of(it)), [0, FEATURES]);
}
