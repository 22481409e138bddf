//! ICMP queries with an identifier, and their replies.

/// The type of the request of an ICMP query with an identifier, and whether this message is the reply (RFC 5508 section
/// 3). `None`: it is no such message.
pub const fn of(is_ip6: bool, message: u8) -> Option<(u8, bool)> {
    match (is_ip6, message) {
        (false, 8 | 13 | 15 | 17 | 42) | (true, 128 | 160) => Some((message, false)),
        (false, 0) => Some((8, true)),
        (false, 14 | 16 | 18 | 43) | (true, 129 | 161) => Some((message - 1, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_reply_has_its_request() {
        assert_eq!([of(false, 8), of(false, 0)], [Some((8, false)), Some((8, true))]);
        assert_eq!([of(true, 128), of(true, 129)], [Some((128, false)), Some((128, true))]);
        assert_eq!([of(false, 3), of(true, 8)], [None; 2]);
        for is_ip6 in [false, true] {
            for (request, is_reply) in (0..=255).filter_map(|message| of(is_ip6, message)) {
                assert_eq!(of(is_ip6, request), Some((request, false)), "{is_reply}");
            }
        }
    }
}
