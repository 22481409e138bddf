//! The link-layer header of a TCP client: Linux keeps the frame that has opened a connection (`TCP_SAVE_SYN`, tcp(7)).
//!
//! A neighbour cache says which MAC address an IP address has now, and any host of the link can write to it. This frame
//! says who has opened the connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::libc;
use stoa_api::login::is_host;

/// Keeps the frame from its link-layer header on (Linux 5.10).
const WITH_LINK_LAYER: libc::c_int = 2;
/// Bytes of a frame that are kept at most: all headers, with all options.
const LONGEST: usize = 512;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Keeps the first frames of all connections that a listener accepts.
///
/// # Errors
/// Those of Linux: it is older than 5.10.
pub fn save(listener: &impl AsFd) -> io::Result<()> {
    let (with, length) = (WITH_LINK_LAYER, size_of::<libc::c_int>() as libc::socklen_t);
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN);
    let socket = listener.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length are those of `with`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(socket, level, option, (&raw const with).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The source MAC address of the frame that has opened a connection. `None`: Linux has not kept it, as for a connection
/// by a SYN cookie, or the frame has no address of a host.
pub fn source_mac(connection: &impl AsFd) -> Option<[u8; 6]> {
    source_of(&frame_of(connection)?)
}

/// The first bytes of the frame that has opened a connection, at most [`LONGEST`]; `None`: Linux has not kept it.
fn frame_of(connection: &impl AsFd) -> Option<Vec<u8>> {
    let mut frame = [0_u8; LONGEST];
    let mut length = LONGEST as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_SAVED_SYN);
    let socket = connection.as_fd().as_raw_fd();
    let to = frame.as_mut_ptr().cast();
    // SAFETY: Linux writes at most `length` bytes to `frame`, and their number to `length`; both outlive the call.
    let result = unsafe { libc::getsockopt(socket, level, option, to, &raw mut length) };
    // Without a frame, the call succeeds and the length is 0.
    let kept = if result == 0 { frame.get(..length as usize)? } else { &[] };
    (!kept.is_empty()).then(|| kept.to_vec())
}

/// The source of an Ethernet frame with an IP packet, if it is the address of a host.
fn source_of(frame: &[u8]) -> Option<[u8; 6]> {
    let header = frame.first_chunk::<ETHERNET>()?;
    let is_ip = matches!(header[12..], [0x08, 0x00] | [0x86, 0xdd]);
    let mac = *header[6..].first_chunk::<6>()?;
    (is_ip && is_host(&mac)).then_some(mac)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn only_frames_of_hosts_have_a_source() {
        let mut frame = [0_u8; 54];
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        frame[12..14].copy_from_slice(&[8, 0]);
        assert_eq!(source_of(&frame), Some([2, 0, 0, 0, 0, 9]));
        assert_eq!(source_of(&frame[..13]), None);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(source_of(&frame), Some([2, 0, 0, 0, 0, 9]));
        frame[12..14].copy_from_slice(&[0x81, 0]);
        assert_eq!(source_of(&frame), None, "a tag");
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[6] = 1;
        assert_eq!(source_of(&frame), None, "a group");
        assert_eq!(source_of(&[]), None);
    }

    #[test]
    fn linux_keeps_the_frame_of_a_listener_that_asks() {
        let open = |is_saving: bool| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            if is_saving {
                save(&listener).unwrap();
            }
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            listener.accept().unwrap().0
        };
        let connection = open(true);
        let frame = frame_of(&connection).expect("a frame");
        assert_eq!(frame.get(12..14), Some(&[8, 0][..]), "{frame:?}");
        // The frames of loopback have addresses of zeros, which no host has.
        assert_eq!(source_mac(&connection), None);
        assert_eq!(frame_of(&open(false)), None);
    }
}
