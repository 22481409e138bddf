//! What links without a network device need: an address of their own and a size.

use crate::error::OpenError;

/// Bytes of an IP packet on a link that has no limit of its own: what every peer takes.
pub(crate) const MTU: u32 = 1500;

/// Queues that a port may be asked for in each direction.
pub(crate) const QUEUES_MAX: u16 = 64;

/// The MAC address that was asked for, or a locally administered one from random.
pub(crate) fn mac(asked: Option<[u8; 6]>) -> [u8; 6] {
    if let Some(mac) = asked {
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

/// A number of queues that was asked for; 0 means one.
pub(crate) fn queues(field: &'static str, asked: u16, most: u16) -> Result<u16, OpenError> {
    if asked > most {
        let reason = format!("{asked} queues asked for: give 1 to {most}");
        return Err(OpenError::Config { field, reason });
    }
    Ok(asked.max(1))
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
    fn queues_have_a_limit() {
        assert_eq!(queues("rx", 0, 4).unwrap(), 1);
        assert_eq!(queues("rx", 4, 4).unwrap(), 4);
        assert!(queues("rx", 5, 4).is_err());
    }
}
