//! What the features of interfaces have as argument: a classifier, or that flows are followed.

use super::AclSets;
use crate::acl::TRACK;
use crate::control::forwarder_state::ForwarderState;

impl ForwarderState {
    pub(super) fn set_acl_input(&self, index: u32, sets: &AclSets) {
        let acls = &self.capabilities.acl;
        let argument = |is_ip4, lists| match acls.id_of(is_ip4, lists) {
            0 if acls.is_stateful && (is_ip4 || acls.has_stateful_rules) => TRACK,
            id => id,
        };
        self.shared.set_feature(index, "ip4-acl-input", argument(true, &sets.in4));
        self.shared.set_feature(index, "ip6-acl-input", argument(false, &sets.in6));
    }

    pub(super) fn set_acl_output(&self, index: u32, sets: &AclSets) {
        let (four, six) = self.acl_output_arguments(sets);
        let features = [("ip4-acl-output", four), ("ip6-acl-output", six)];
        self.set_output_arguments((index, self.vrf_of_interface(index)), features);
    }

    /// The arguments of the features of sent packets: IPv4 and IPv6.
    pub(in crate::control) fn acl_output_arguments(&self, sets: &AclSets) -> (u32, u32) {
        let acls = &self.capabilities.acl;
        let argument = |is_ip4, lists| match acls.id_of(is_ip4, lists) {
            0 if acls.has_stateful_rules && acls.has_outputs => TRACK,
            id => id,
        };
        (argument(true, &sets.out4), argument(false, &sets.out6))
    }
}
