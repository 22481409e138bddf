//! VLAN tags for a host on a kernel without VLAN devices: two small BPF programs at the host's end of the link.
//!
//! They tag frames that the host sends and untag those that it receives; they drop a received frame without exactly
//! these tags. Segmentation offload still works, so TCP is as fast as without tags. On kernels without TCX (before
//! 6.6), a VLAN device is used.

use std::os::fd::OwnedFd;

use crate::bpf::{Hook, Instruction, attach, load};
use crate::{LabError, Namespace, Result};

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// 0x8100 (IEEE 802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// 1..=4094.
    pub vid: u16,
}

impl Tag {
    /// A customer tag, 802.1Q.
    #[must_use]
    pub const fn customer(vid: u16) -> Self {
        Self { tpid: 0x8100, vid }
    }

    /// A service tag, 802.1ad.
    #[must_use]
    pub const fn service(vid: u16) -> Self {
        Self { tpid: 0x88a8, vid }
    }
}

/// Keeps a device tagged: open descriptors of the attached programs, or nothing when a VLAN device is used.
#[derive(Debug)]
pub(crate) struct Tagged {
    _links: Vec<OwnedFd>,
}

/// Tags all traffic of `device` in `namespace`; `tags` outermost first, one or two.
///
/// # Errors
///
/// [`LabError::NoVlan`] when the kernel supports neither method.
pub(crate) fn tag(namespace: &Namespace, device: &str, tags: &[Tag]) -> Result<Tagged> {
    let bpf = match namespace.enter(|| by_bpf(device, tags))? {
        Ok(links) => return Ok(Tagged { _links: links }),
        Err(error) => error,
    };
    by_device(namespace, device, tags).map_err(|error| LabError::NoVlan {
        device: device.to_owned(),
        vid: tags.first().map_or(0, |tag| tag.vid),
        bpf: bpf.to_string(),
        device_error: error.to_string(),
    })?;
    Ok(Tagged { _links: Vec::new() })
}

fn by_bpf(device: &str, tags: &[Tag]) -> std::io::Result<Vec<OwnedFd>> {
    let index = nix::net::if_::if_nametoindex(device)?;
    let mut links = Vec::with_capacity(2);
    for (hook, program) in [(Hook::Egress, push(tags)), (Hook::Ingress, pop(tags))] {
        let program = load(&program, hook)?;
        links.push(attach(&program, index, hook)?);
    }
    Ok(links)
}

/// The device keeps its name for the host: the link is renamed and the innermost VLAN device takes the name.
fn by_device(namespace: &Namespace, device: &str, tags: &[Tag]) -> Result<()> {
    let trunk = format!("{device}-trunk");
    namespace.ip(&["link", "set", device, "down"])?;
    namespace.ip(&["link", "set", device, "name", &trunk])?;
    let mut below = trunk;
    for (level, tag) in tags.iter().enumerate() {
        let last = level + 1 == tags.len();
        let name = if last { device.to_owned() } else { format!("{device}-{level}") };
        let protocol = if tag.tpid == 0x88a8 { "802.1ad" } else { "802.1Q" };
        let vid = tag.vid.to_string();
        namespace.ip(&[
            "link", "add", "link", &below, "name", &name, "type", "vlan", "protocol", protocol,
            "id", &vid,
        ])?;
        namespace.ip(&["link", "set", &below, "up"])?;
        below = name;
    }
    namespace.ip(&["link", "set", device, "up"])?;
    Ok(())
}

// Registers, operations, helpers and return codes of <linux/bpf.h>.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R6: u8 = 6;
const R7: u8 = 7;
const HELPER_VLAN_PUSH: i32 = 18;
const HELPER_VLAN_POP: i32 = 19;
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;
/// Offsets in `struct __sk_buff`.
const SKB_VLAN_PRESENT: i16 = 20;
const SKB_VLAN_TCI: i16 = 24;

const fn op(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: (from << 4) | to, offset, immediate }
}
const fn copy(to: u8, from: u8) -> Instruction {
    op(0xbf, to, from, 0, 0)
}
const fn set(to: u8, value: i32) -> Instruction {
    op(0xb7, to, 0, 0, value)
}
const fn and(to: u8, value: i32) -> Instruction {
    op(0x57, to, 0, 0, value)
}
const fn load_word(to: u8, from: u8, offset: i16) -> Instruction {
    op(0x61, to, from, offset, 0)
}
const fn call(helper: i32) -> Instruction {
    op(0x85, 0, 0, 0, helper)
}
const fn leave() -> Instruction {
    op(0x95, 0, 0, 0, 0)
}
/// Jumps when the register differs from the value; [`seal`] fills in the target.
const fn drop_unless(register: u8, value: i32) -> Instruction {
    op(0x55, register, 0, 0, value)
}

/// Ends a program: accepts the packet, or drops it after a failed check.
fn seal(mut body: Vec<Instruction>) -> Vec<Instruction> {
    body.extend([set(R0, TCX_NEXT), leave()]);
    let drop = body.len();
    for (at, instruction) in body.iter_mut().enumerate() {
        if instruction.code == 0x55 {
            // The programs here have at most about twenty instructions.
            instruction.offset = i16::try_from(drop - at - 1).unwrap_or(i16::MAX);
        }
    }
    body.extend([set(R0, TCX_DROP), leave()]);
    body
}

/// Egress: pushes the tags, the innermost first.
fn push(tags: &[Tag]) -> Vec<Instruction> {
    let mut body = vec![copy(R6, R1)];
    for tag in tags.iter().rev() {
        body.extend([
            copy(R1, R6),
            set(R2, i32::from(tag.tpid.to_be())),
            set(R3, i32::from(tag.vid)),
            call(HELPER_VLAN_PUSH),
            drop_unless(R0, 0),
        ]);
    }
    seal(body)
}

/// Ingress: checks that the frame has the tags, the outermost first, and pops them.
fn pop(tags: &[Tag]) -> Vec<Instruction> {
    let mut body = vec![copy(R6, R1)];
    for tag in tags {
        body.extend([
            load_word(R7, R6, SKB_VLAN_PRESENT),
            drop_unless(R7, 1),
            load_word(R7, R6, SKB_VLAN_TCI),
            and(R7, 0xfff),
            drop_unless(R7, i32::from(tag.vid)),
            copy(R1, R6),
            call(HELPER_VLAN_POP),
            drop_unless(R0, 0),
        ]);
    }
    seal(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_jumps_to_the_drop() {
        for tags in [vec![Tag::customer(100)], vec![Tag::service(200), Tag::customer(100)]] {
            for program in [push(&tags), pop(&tags)] {
                let drop = program.len() - 2;
                assert_eq!(program[drop], set(R0, TCX_DROP));
                let checks = program.iter().enumerate().filter(|(_, one)| one.code == 0x55);
                for (at, check) in checks {
                    assert_eq!(at + 1 + usize::try_from(check.offset).expect("forward"), drop);
                }
            }
        }
    }

    #[test]
    fn pushes_the_innermost_tag_first() {
        let program = push(&[Tag::service(200), Tag::customer(100)]);
        let vids: Vec<i32> = program
            .iter()
            .filter(|one| one.code == 0xb7 && one.registers == R3)
            .map(|one| one.immediate)
            .collect();
        assert_eq!(vids, [100, 200]);
    }
}
