//! Segments that would mislead a gateway: SYNs, wrong checksums, announcements that change; and errors about what was
//! changed.

use stoa_wire::tcp::flag;

use super::*;
use crate::nat44_errors::error;

fn translated_by_pool() -> Setup {
    let pools = vec![net(POOL, 32)];
    let policy = NatPolicy { pools, ..ftp_policy(Mapping::EndpointDependent) };
    with_nat(Setup::three_ports(), vec![policy], Vec::new())
}

fn port(address: IpAddr, port: u16) -> String {
    format!("PORT {}\r\n", numbers(address, port))
}

/// A client behind the pool, whose connection is open.
fn opened(lab: &mut Lab) -> Control {
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (four(POOL), server));
    control.open(lab);
    control
}

/// Whoever knows the ends of a connection can send a SYN.
#[test]
fn a_syn_of_an_open_connection_moves_no_line() {
    let mut lab = Lab::new(&translated_by_pool());
    let mut control = opened(&mut lab);
    for at in 0..2 {
        let mut syn = control.of_client(SYN, b"");
        // Of a number far ahead.
        syn[24] = syn[24].wrapping_add(0x40);
        if at == 0 {
            syn[36] = syn[36].wrapping_sub(0x40);
        }
        lab.send("west", [packet_from(1, &syn)]);
        lab.dropped();
        lab.take("east");
    }
    assert_eq!(control.say(&mut lab, true, &port(host4(1).into(), 5001)), port(POOL.into(), 5001));
}

#[test]
fn a_new_connection_has_numbers_of_its_own() {
    let mut lab = Lab::new(&translated_by_pool());
    let mut control = opened(&mut lab);
    assert_eq!(control.say(&mut lab, true, &port(host4(1).into(), 5001)), port(POOL.into(), 5001));
    let reset = control.of_client(flag::RST | ACK, b"");
    assert!(sent(&mut lab, 1, &reset, "east").is_some());
    let ends = (four(host4(1)), four(host4(2)));
    let syn = segment(ends, control.ports_of_client(), (77_000, 0), SYN, b"");
    assert_eq!(sent(&mut lab, 1, &syn, "east").unwrap().numbers, (77_000, 0));
}

/// Nobody takes an announced connection away by a SYN that its receiver ignores.
#[test]
fn a_syn_with_a_wrong_checksum_takes_nothing() {
    let mut lab = Lab::new(&ftp_gate());
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (client, server));
    control.open(&mut lab);
    control.say(&mut lab, true, &port(client, 5001));
    let mut syn = segment((server, client), (20, 5001), (1, 0), SYN, b"");
    syn[36] ^= 1;
    lab.send("east", [packet_from(2, &syn)]);
    lab.dropped();
    assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
    assert!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)).is_some());
}

/// The same number with another text: the new port counts, which nobody translates.
#[test]
fn a_repeated_announcement_may_have_another_port() {
    let mut lab = Lab::new(&ftp_gate());
    let (client, server) = (four(host4(1)), four(host4(2)));
    let mut control = Control::new((client, server), (client, server));
    control.open(&mut lab);
    for at in [5001, 5002] {
        control.repeat(&mut lab, true, &port(client, at));
    }
    assert!(connect(&mut lab, (2, "west"), (server, client), (20, 5001)).is_none());
    let data = connect(&mut lab, (2, "west"), (server, client), (20, 5002)).unwrap();
    assert_eq!((data.ends, data.ports), ((server, client), (20, 5002)));
}

/// Errors of others quote the segment as its sender knows it.
#[test]
fn errors_about_changed_segments_have_the_number_of_their_sender() {
    let mut lab = Lab::new(&translated_by_pool());
    let mut control = opened(&mut lab);
    assert_eq!(control.say(&mut lab, true, &port(host4(1).into(), 5001)), port(POOL.into(), 5001));
    let line = "STOR file\r\n";
    let packet = control.of_client(ACK, line.as_bytes());
    lab.send("west", [packet_from(1, &packet)]);
    let received = lab.take("east").pop().unwrap()[14..].to_vec();
    assert_ne!(received[24..28], packet[24..28]);
    for length in [28, received.len()] {
        let error = error((host4(2), POOL), (3, 1, 0), &received[..length]);
        lab.send("east", [packet_from(2, &error)]);
        assert_eq!(lab.dropped(), []);
        assert_eq!(lab.only("west").payload[20..28], packet[20..28]);
    }
}
