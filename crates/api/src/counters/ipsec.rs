//! The counters of IPsec.

use super::{Counter, Leaf, Metric};
use crate::v1;

counters! {
    /// Security associations.
    SECURITY_ASSOCIATIONS: SecurityAssociationState {
        packets {
            column "packets"
            leaf Long "packets"
            metric "ipsec_sa" "packets" "Packets sent, or authentic and received once"
        }
        bytes {
            column "bytes"
            leaf Long "octets"
            metric "ipsec_sa" "bytes" "Bytes of the inner packets"
        }
        replayed {
            column "replayed"
            leaf Long "replayed"
            metric "ipsec_sa_replayed" "packets" "Packets whose number was received before"
        }
        late {
            column "late"
            leaf Long "late"
            metric "ipsec_sa_late" "packets" "Packets whose number was behind the anti-replay window"
        }
        lost {
            column "lost"
            leaf Long "lost"
            metric "ipsec_sa_lost" "packets" "Numbers that left the anti-replay window without a packet"
        }
        forged {
            column "forged"
            leaf Long "forged"
            metric "ipsec_sa_forged" "packets" "Packets that were not authentic"
        }
        malformed {
            leaf Long "malformed"
            metric "ipsec_sa_malformed" "packets" "Packets of wrong length, or authentic ones with wrong contents"
        }
    }
}
