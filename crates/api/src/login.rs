//! Logins of hosts: the rows of the forwarder, and limits.

use stoa_delta::Encode;

/// The most logins of all interfaces.
pub const LOGINS: usize = 65_536;
/// The most prefixes of a walled garden.
pub const GARDEN: usize = 1_024;
/// The most name servers, and addresses of a portal.
pub const ADDRESSES: usize = 16;
/// The most packets of one host in a second that a share may have.
pub const HOST_RATE: u32 = 1_000_000;
/// The packets of one host in a second to name servers, DHCP and the portal, where nobody says how many: a controller
/// that does not know the share.
pub const QUERY_RATE: u32 = 200;
/// The same of redirects and resets.
pub const ANSWER_RATE: u32 = 100;
/// The longest address of a portal to which HTTP is redirected, in bytes.
pub const REDIRECT_BYTES: usize = 255;

/// The name of the table.
pub const TABLE: &str = "logins";
/// The version of keys and rows.
pub const FORMAT: u32 = 1;

/// Which host a login is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The interface.
    pub interface: String,
    /// The MAC address of the host.
    pub mac: [u8; 6],
}

/// Whether a MAC address is one of a host: neither a group's, nor all zeros or all ones, which forwarders have no key
/// for.
pub fn is_host(mac: &[u8; 6]) -> bool {
    mac[0] & 1 == 0 && *mac != [0; 6] && *mac != [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]
}

/// The number of the login: the counters of another one begin at zero.
pub type Row = u64;

impl Encode for Key {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.mac);
        to.extend_from_slice(self.interface.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (mac, interface) = bytes.split_first_chunk()?;
        let interface = std::str::from_utf8(interface).ok().filter(|it| !it.is_empty())?;
        Some(Self { interface: interface.to_owned(), mac: *mac })
    }
}

/// Whether HTTP may be redirected to this address: nothing in it can end a header field.
pub fn is_redirect(url: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    url.len() <= REDIRECT_BYTES
        && url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
        && url.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_bytes() {
        let key = Key { interface: "guest.7".to_owned(), mac: [2, 0, 0, 0, 0, 9] };
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        assert_eq!(Key::decode(&bytes), Some(key));
        assert_eq!(Key::decode(&bytes[..6]), None);
        assert_eq!(Key::decode(&[2, 0, 0, 0, 0, 9, 0xff]), None);
    }

    #[test]
    fn groups_and_reserved_addresses_are_no_hosts() {
        assert!(is_host(&[2, 0, 0, 0, 0, 9]) && is_host(&[0, 0, 0, 0, 0, 1]));
        for mac in [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]]
        {
            assert!(!is_host(&mac), "{mac:?}");
        }
    }

    #[test]
    fn a_redirect_is_one_address() {
        assert!(is_redirect("https://login.example:8444/portal"));
        for wrong in [
            "",
            "https://",
            "http://login.example/",
            "https://login.example/\r\nSet-Cookie: a",
            "https://login.example/ x",
            "https://login.example/\u{e9}",
        ] {
            assert!(!is_redirect(wrong), "{wrong}");
        }
        assert!(!is_redirect(&format!("https://{}", "a".repeat(REDIRECT_BYTES))));
    }
}
