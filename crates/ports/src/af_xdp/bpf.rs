//! A thin binding of bpf(2) for one XDP program: a map of sockets, the program, and a link that
//! holds it on a device for as long as its descriptor is open (linux/bpf.h). And for the two
//! instructions that keep frames of a packet socket's device from Linux.

use std::ffi::{c_int, c_long};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::rights::Rights;

const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
/// `BPF_MAP_TYPE_XSKMAP`.
const XSKMAP: u32 = 17;
/// `BPF_PROG_TYPE_XDP`.
const XDP: u32 = 6;
/// `BPF_XDP`, an attach type.
const ATTACH_XDP: u32 = 37;
/// `BPF_PROG_TYPE_SCHED_CLS`.
const SCHED_CLS: u32 = 3;
/// `BPF_TCX_INGRESS`, an attach type (Linux 6.6).
const ATTACH_INGRESS: u32 = 46;
/// `BPF_F_XDP_HAS_FRAGS`: the program works on frames of several buffers.
pub(super) const HAS_FRAGS: u32 = 1 << 5;
/// `BPF_F_XDP_DEV_BOUND_ONLY`: the program may query the driver about a frame.
pub(super) const DEVICE_BOUND: u32 = 1 << 6;

/// One instruction of the BPF machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    /// Operation.
    pub code: u8,
    /// Destination register in the low nibble, source register in the high one.
    pub registers: u8,
    /// Offset: of a jump in instructions, of memory in bytes.
    pub offset: i16,
    /// Immediate operand.
    pub immediate: i32,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
    rest: [u32; 4],
}

const _: () = assert!(size_of::<Instruction>() == 8);
const _: () = assert!(size_of::<MapUpdate>() == 32);
const _: () = assert!(size_of::<ProgLoad>() == 72);

/// Calls bpf(2).
///
/// # Safety
/// `attributes` is laid out as the kernel expects for `command`, and what it points to lives
/// through the call with the lengths that it gives.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> Result<c_long> {
    // SAFETY: the caller's promise; the size is that of the value.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

/// A descriptor that bpf(2) made.
///
/// # Safety
/// The number is a new descriptor that nothing else owns.
unsafe fn own(descriptor: c_long) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(descriptor as c_int) }
}

/// A map from queue numbers to sockets, empty.
pub(super) fn socket_map(entries: u32) -> Result<OwnedFd> {
    let attributes = MapCreate { kind: XSKMAP, key: 4, value: 4, entries, flags: 0 };
    // SAFETY: the attributes hold no pointers; the answer is a new descriptor.
    unsafe { Ok(own(bpf(MAP_CREATE, &attributes)?)) }
}

/// Sends frames of `queue` to `socket` from now on; closing the socket ends that.
pub(super) fn put(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
    let value = socket.as_raw_fd();
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const queue).expose_provenance() as u64,
        value: (&raw const value).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: key and value are four bytes each, as the map was made, and live through the call.
    unsafe { bpf(MAP_UPDATE, &attributes)? };
    Ok(())
}

/// Loads a program; `device` is what a [`DEVICE_BOUND`] one is for, else 0.
///
/// # Errors
/// The system's error, and the last lines of the verifier's log. Where capabilities are missing, the
/// system's answer as it is: the verifier's log then only lists forbidden operations.
pub(super) fn load(program: &[Instruction], flags: u32, device: u32) -> Result<OwnedFd> {
    let mut attributes = ProgLoad {
        kind: XDP,
        count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        // The kernel lends its functions to programs that are under the GPL as well.
        license: c"Dual MIT/GPL".as_ptr().expose_provenance() as u64,
        flags,
        device,
        attach_type: ATTACH_XDP,
        ..ProgLoad::default()
    };
    attributes.name[..8].copy_from_slice(b"stoa_xdp");
    // SAFETY: instructions and license live through the call; the answer is a new descriptor.
    let first = match unsafe { bpf(PROG_LOAD, &attributes) } {
        // SAFETY: as above.
        Ok(program) => return Ok(unsafe { own(program) }),
        Err(error) => error,
    };
    let mut log = vec![0u8; 64 << 10];
    (attributes.log_level, attributes.log_size) = (1, log.len() as u32);
    attributes.log = log.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: as above, and the log has the length given.
    if let Ok(program) = unsafe { bpf(PROG_LOAD, &attributes) } {
        // SAFETY: as above.
        return Ok(unsafe { own(program) });
    }
    let text = String::from_utf8_lossy(&log);
    let mut last: Vec<&str> = text.trim_end_matches('\0').lines().rev().take(3).collect();
    last.reverse();
    let is_refusal = matches!(first.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    match last.is_empty() || is_refusal && Rights::now().are_too_few() {
        true => Err(first),
        false => Err(Error::other(format!("{first}; the kernel's verifier: {}", last.join("; ")))),
    }
}

/// Puts a program on the device `index` of this namespace, until the answer is closed.
pub(super) fn attach(program: &OwnedFd, index: u32, flags: u32) -> Result<OwnedFd> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        device: index,
        attach_type: ATTACH_XDP,
        flags,
        ..LinkCreate::default()
    };
    // SAFETY: the attributes hold no pointers; the answer is a new descriptor.
    unsafe { Ok(own(bpf(LINK_CREATE, &attributes)?)) }
}

/// Drops all frames that the device `index` of this namespace receives, when its packet sockets
/// have them, until the answer is closed.
///
/// # Errors
/// A kernel before Linux 6.6; CAP_BPF or CAP_NET_ADMIN is missing; no such device.
pub(crate) fn drop_behind_sockets(index: u32) -> Result<OwnedFd> {
    // BPF_ALU64 | BPF_MOV | BPF_K: r0 = TCX_DROP; BPF_JMP | BPF_EXIT.
    let program = [(0xb7, 2), (0x95, 0)].map(|(code, immediate)| Instruction {
        code,
        registers: 0,
        offset: 0,
        immediate,
    });
    let mut attributes = ProgLoad {
        kind: SCHED_CLS,
        count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: c"Dual MIT/GPL".as_ptr().expose_provenance() as u64,
        ..ProgLoad::default()
    };
    attributes.name[..10].copy_from_slice(b"stoa_alone");
    // SAFETY: instructions and license live through the call; the answer is a new descriptor.
    let program = unsafe { own(bpf(PROG_LOAD, &attributes)?) };
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        device: index,
        attach_type: ATTACH_INGRESS,
        ..LinkCreate::default()
    };
    // SAFETY: the attributes hold no pointers; the answer is a new descriptor.
    unsafe { Ok(own(bpf(LINK_CREATE, &attributes)?)) }
}
