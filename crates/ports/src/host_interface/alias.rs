//! The owner of a device: the alias that `ip link` shows (rtnetlink(7), IFLA_IFALIAS), and its removal. The three
//! messages that this takes are built by hand: nothing else here needs netlink.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, recv, send};

use crate::device_opener::{self, SocketKind};
use crate::netns::Namespace;

/// Bytes of a message header (nlmsghdr) and of what describes a device (ifinfomsg).
const HEADER: usize = 16;
const DEVICE: usize = 16;
/// Bytes of an attribute's header.
const ATTRIBUTE: usize = 4;
/// The kernel's longest answer: a device's description with all its statistics.
const ANSWER: usize = 32 * 1024;

/// Sets the alias of the device with that number in that namespace.
pub(super) fn set(namespace: &Namespace, index: i32, alias: &str) -> Result<()> {
    let mut message = request(libc::RTM_SETLINK, libc::NLM_F_ACK, index);
    let bytes = &alias.as_bytes()[..alias.len().min(255)];
    message.extend(((ATTRIBUTE + bytes.len()) as u16).to_ne_bytes());
    message.extend(libc::IFLA_IFALIAS.to_ne_bytes());
    message.extend(bytes);
    message.resize(message.len().next_multiple_of(4), 0);
    query(&socket(namespace)?, &mut message).map(|_| ())
}

/// The alias of the device with that number in that namespace; empty when it has none.
pub(super) fn get(namespace: &Namespace, index: i32) -> Result<String> {
    get_by(&socket(namespace)?, index)
}

fn get_by(socket: &OwnedFd, index: i32) -> Result<String> {
    let answer = query(socket, &mut request(libc::RTM_GETLINK, 0, index))?;
    let mut rest = answer.get(HEADER + DEVICE..).unwrap_or_default();
    while let Some(head) = rest.first_chunk::<ATTRIBUTE>() {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let Some(value) = rest.get(ATTRIBUTE..length) else { break };
        if u16::from_ne_bytes([head[2], head[3]]) == libc::IFLA_IFALIAS {
            let text = String::from_utf8_lossy(value);
            return Ok(text.trim_end_matches('\0').to_owned());
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(String::new())
}

/// Deletes the device with that number in that namespace, even if its queues are open, if it has that
/// alias.
pub(super) fn delete(namespace: &Namespace, index: i32, alias: &str) -> Result<()> {
    let socket = socket(namespace)?;
    if get_by(&socket, index)? != alias {
        return Err(ErrorKind::NotFound.into());
    }
    query(&socket, &mut request(libc::RTM_DELLINK, libc::NLM_F_ACK, index)).map(|_| ())
}

fn socket(namespace: &Namespace) -> Result<OwnedFd> {
    device_opener::flat(device_opener::socket(namespace, SocketKind::Route))
}

fn request(kind: u16, flags: i32, index: i32) -> Vec<u8> {
    let mut message = vec![0; HEADER + DEVICE];
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message
}

/// Sends a message and waits for its answer; netlink answers before `send` returns.
fn query(socket: &OwnedFd, message: &mut [u8]) -> Result<Vec<u8>> {
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    send(socket.as_raw_fd(), message, MsgFlags::empty())?;
    let mut answer = vec![0; ANSWER];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    let short = || Error::from(ErrorKind::UnexpectedEof);
    let head = answer.first_chunk::<HEADER>().ok_or_else(short)?;
    if i32::from(u16::from_ne_bytes([head[4], head[5]])) == libc::NLMSG_ERROR {
        let code = answer.get(HEADER..).and_then(|rest| rest.first_chunk::<4>());
        let code = i32::from_ne_bytes(*code.ok_or_else(short)?);
        if code != 0 {
            return Err(Error::from_raw_os_error(-code));
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_existing_device_has_an_alias() {
        // Number 1 in every namespace; nothing gives it an alias.
        assert_eq!(get(&Namespace::OWN, 1).unwrap(), "");
        let error = get(&Namespace::OWN, i32::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        let strange = delete(&Namespace::OWN, 1, "stoa host interface").unwrap_err();
        assert_eq!(strange.kind(), ErrorKind::NotFound, "it is not asked to delete it");
    }
}
