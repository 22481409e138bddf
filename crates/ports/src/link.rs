//! The MAC address, MTU and queue count of links without a network device.

use stoa_engine::pool::{FRAME_MAX, JUMBO_FRAME_MAX};

use crate::error::OpenError;

/// Bytes of an IP packet on a link that has no limit of its own: every peer accepts it.
pub(crate) const MTU: u32 = 1500;
/// Bytes of the largest IP packet that any port carries: what a jumbo buffer holds less
/// Ethernet header and two tags.
pub const MTU_MAX: u32 = (JUMBO_FRAME_MAX - LINK_HEADER) as u32;
/// Bytes of the smallest MTU that a port may have: RFC 791, section 3.2.
const MTU_MIN: u32 = 68;

/// Ethernet header and two tags: what a frame has besides IP.
pub(crate) const LINK_HEADER: usize = 14 + 8;

/// The most queues of a port in each direction.
pub(crate) const QUEUES_MAX: u16 = 64;

/// The configured MAC address, or a locally administered one from random.
pub(crate) fn mac(requested: Option<[u8; 6]>) -> [u8; 6] {
    if let Some(mac) = requested {
        return mac;
    }
    let mut mac = [0; 6];
    // SAFETY: the kernel writes at most the six bytes that the pointer covers.
    let got = unsafe { libc::getrandom(mac.as_mut_ptr().cast(), mac.len(), 0) };
    if got != mac.len() as isize {
        // Only a kernel from before 2014 gets here; addresses must still differ.
        mac = stoa_engine::clock::tsc().to_le_bytes()[..6].try_into().unwrap_or([2; 6]);
    }
    // IEEE 802, 8.2: locally administered, not a group.
    mac[0] = mac[0] & 0xfc | 0x02;
    mac
}

/// The configured MTU; 0 means `usual`.
pub(crate) fn mtu(requested: u32, usual: u32) -> Result<u32, OpenError> {
    mtu_up_to(requested, usual, MTU_MAX)
}

/// The same, with another limit than [`MTU_MAX`].
pub(crate) fn mtu_up_to(requested: u32, usual: u32, most: u32) -> Result<u32, OpenError> {
    match requested {
        0 => Ok(usual.min(most)),
        _ if (MTU_MIN..=most).contains(&requested) => Ok(requested),
        _ => {
            let reason = format!("{requested} bytes requested: configure {MTU_MIN} to {most}");
            Err(OpenError::Config { field: "mtu", reason })
        }
    }
}

/// Bytes of the longest frame that a port of that MTU receives. What fits into a plain
/// buffer is taken in any case; jumbo buffers are only used where the MTU requires them, so
/// that no peer of another port can use them up.
pub(crate) fn longest(mtu: u32) -> usize {
    (mtu as usize + LINK_HEADER).clamp(FRAME_MAX, JUMBO_FRAME_MAX)
}

/// The configured number of queues; 0 means one.
pub(crate) fn queues(field: &'static str, requested: u16, most: u16) -> Result<u16, OpenError> {
    if requested > most {
        let reason = format!("{requested} queues requested: configure 1 to {most}");
        return Err(OpenError::Config { field, reason });
    }
    Ok(requested.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_addresses_are_local_and_differ() {
        let (one, two) = (mac(None), mac(None));
        assert_ne!(one, two);
        assert_eq!(one[0] & 3, 2);
        assert_eq!(mac(Some([2, 0, 0, 0, 0, 1])), [2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn an_mtu_has_limits() {
        assert_eq!((mtu(0, 1500).unwrap(), mtu(9000, 1500).unwrap()), (1500, 9000));
        assert_eq!(mtu(0, 65_535).unwrap(), MTU_MAX);
        assert!(mtu(67, 1500).is_err() && mtu(MTU_MAX + 1, 1500).is_err());
        assert_eq!(longest(1500), FRAME_MAX);
        assert_eq!((longest(9000), longest(MTU_MAX)), (9022, JUMBO_FRAME_MAX));
    }

    #[test]
    fn queues_have_a_limit() {
        assert_eq!(queues("rx", 0, 4).unwrap(), 1);
        assert_eq!(queues("rx", 4, 4).unwrap(), 4);
        assert!(queues("rx", 5, 4).is_err());
    }
}
