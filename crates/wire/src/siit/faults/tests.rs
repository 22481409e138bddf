//! Mappings with and without faults, and the networks of which no host is.

use proptest::prelude::*;

use super::*;

fn prefix(text: &str, length: u8) -> Prefix {
    Prefix::new(text.parse().unwrap(), length).unwrap()
}

fn ip4(text: &str) -> (Ipv4Addr, u8) {
    let (address, length) = text.split_once('/').unwrap();
    (address.parse().unwrap(), length.parse().unwrap())
}

fn ip6(text: &str) -> (Ipv6Addr, u8) {
    let (address, length) = text.split_once('/').unwrap();
    (address.parse().unwrap(), length.parse().unwrap())
}

fn explicit(four: &str, six: &str) -> Mapping {
    Mapping::explicit(ip4(four), ip6(six)).unwrap()
}

fn embedded(four: &str, six: &str) -> Mapping {
    let (network, length) = ip6(six);
    Mapping::embedded(ip4(four), Prefix::new(network, length).unwrap()).unwrap()
}

/// The causes with the numbers of their mappings, beside 2001:db8:46::/96.
fn causes(mappings: &[Mapping]) -> Vec<(usize, String)> {
    let mut numbered: Vec<_> = mappings.iter().copied().enumerate().collect();
    let mut all = Vec::new();
    check(prefix("2001:db8:46::", 96), &mut numbered, |number, fault| {
        all.push((number, fault.to_string()));
    });
    all
}

#[test]
fn mappings_that_can_be_meant_are_right() {
    let right = [
        explicit("192.0.2.0/24", "2001:db8:1::/64"),
        explicit("192.0.2.7/32", "2001:db8:2::7/128"),
        embedded("198.51.100.0/25", "2001:db8:46::/96"),
        embedded("0.0.0.0/0", "64:ff9b::/96"),
        embedded("198.0.0.0/8", "64:ff9b::/96"),
        explicit("198.41.0.0/16", "64:ff9b::c629:0/112"),
    ];
    assert_eq!(causes(&right), []);
    assert_eq!(causes(&[explicit("0.0.0.0/0", "2001:db8:64::/96")]), []);
}

#[test]
fn each_fault_has_its_words() {
    for (mapping, cause) in [
        (
            explicit("169.254.0.0/16", "2001:db8:1::/64"),
            "169.254.0.0/16 has addresses of 169.254.0.0/16, which no host can have",
        ),
        (
            explicit("127.0.0.1/32", "2001:db8:1::/64"),
            "127.0.0.1/32 has addresses of 127.0.0.0/8, which no host can have",
        ),
        (
            embedded("128.0.0.0/1", "64:ff9b::/96"),
            "128.0.0.0/1 has addresses of 169.254.0.0/16, which no host can have",
        ),
        (
            embedded("240.0.0.0/4", "2001:db8:64::/96"),
            "240.0.0.0/4 has addresses of 224.0.0.0/3, which no host can have",
        ),
        (explicit("192.0.2.0/31", "::/0"), "::/0 has addresses of ::/128, which no host can have"),
        (
            explicit("192.0.2.0/31", "fe00::/7"),
            "fe00::/7 has addresses of fe80::/10, which no host can have",
        ),
        (
            explicit("192.0.2.0/24", "ff0e::/64"),
            "ff0e::/64 has addresses of ff00::/8, which no host can have",
        ),
        (
            embedded("192.0.2.0/24", "fe80::/96"),
            "fe80::c000:200/120 has addresses of fe80::/10, which no host can have",
        ),
        (
            embedded("192.0.2.0/24", "::ffff:0:0/96"),
            "::ffff:192.0.2.0/120 has addresses of ::ffff:0.0.0.0/96, which no host can have",
        ),
        (
            embedded("10.9.0.0/16", "64:ff9b::/96"),
            "64:ff9b::a09:0/112 would stand for 10.0.0.0/8, and the well-known prefix 64:ff9b::/96 stands for \
             global addresses alone (RFC 6052)",
        ),
        (
            explicit("0.0.0.0/0", "64:ff9b::/96"),
            "64:ff9b::/96 would stand for 10.0.0.0/8, and the well-known prefix 64:ff9b::/96 stands for global \
             addresses alone (RFC 6052)",
        ),
        (
            explicit("198.41.0.4/32", "64:ff9b::c0a8:1/128"),
            "64:ff9b::c0a8:1/128 would stand for 192.168.0.0/16, and the well-known prefix 64:ff9b::/96 stands \
             for global addresses alone (RFC 6052)",
        ),
        (
            explicit("198.41.0.0/16", "64:ff9b::/64"),
            "64:ff9b::/64 would stand for 10.0.0.0/8, and the well-known prefix 64:ff9b::/96 stands for global \
             addresses alone (RFC 6052)",
        ),
        (
            embedded("0.0.0.0/0", "2001:db8:46::/96"),
            "0.0.0.0/0 is mapped to 2001:db8:46::/96, which stands for IPv4 hosts without a mapping: nobody would \
             be one",
        ),
        (
            embedded("0.0.0.0/0", "2001:db8::/32"),
            "2001:db8::/32 has all of 2001:db8:46::/96, which stands for hosts without a mapping",
        ),
        (
            explicit("192.0.2.0/24", "2001:db8::/32"),
            "2001:db8::/32 has all of 2001:db8:46::/96, which stands for hosts without a mapping",
        ),
    ] {
        assert_eq!(causes(&[mapping]), [(0, cause.to_owned())]);
    }
}

#[test]
fn equal_ranges_of_any_kind_are_found() {
    let mappings = [
        embedded("198.51.100.0/25", "2001:db8:46::/96"),
        explicit("192.0.2.0/25", "2001:db8:46::c633:6400/121"),
        explicit("192.0.2.0/25", "2001:db8:9::/121"),
    ];
    let expected = [
        (2, "192.0.2.0/25 has another mapping, to 2001:db8:46::c633:6400/121"),
        (
            1,
            "2001:db8:46::c633:6400/121 is that of 198.51.100.0/25, too: packets from it would have one of both",
        ),
    ];
    assert_eq!(causes(&mappings), expected.map(|(number, text)| (number, text.to_owned())));
    // The whole mapping twice is one error.
    assert_eq!(causes(&[mappings[2]; 2]).len(), 1);
}

proptest! {
    #[test]
    fn networks_are_those_of_the_functions(address in any::<u32>(), high in any::<u8>()) {
        for bits in [address, u32::from(high) << 24 | address & 0xff_ffff, address & 0xf | 0xc0a8 << 16] {
            let address = Ipv4Addr::from_bits(bits);
            let is_in = |nets: &[Net4]| nets.iter().any(|it| it.contains(Net4(address, 32)));
            prop_assert_eq!(is_host(address), !is_in(&NO_HOSTS));
            prop_assert_eq!(Prefix::WELL_KNOWN.may_have(address), !is_in(&NOT_GLOBAL));
        }
    }
}

#[test]
fn borders_of_networks_are_those_of_the_functions() {
    let borders = |it: &Net4| {
        let first = it.0.to_bits();
        let last = first | !mask4(it.1);
        [first.wrapping_sub(1), first, last, last.wrapping_add(1)].map(Ipv4Addr::from_bits)
    };
    for address in NO_HOSTS.iter().chain(&NOT_GLOBAL).flat_map(borders) {
        let is_in = |nets: &[Net4]| nets.iter().any(|it| it.contains(Net4(address, 32)));
        assert_eq!(is_host(address), !is_in(&NO_HOSTS), "{address}");
        assert_eq!(Prefix::WELL_KNOWN.may_have(address), !is_in(&NOT_GLOBAL), "{address}");
    }
}
