//! A thin binding of bpf(2): loads a traffic-control program and attaches it to a device's ingress or egress (TCX).
//!
//! Constants and layouts are those of the kernel's user interface, `<linux/bpf.h>`.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;

/// The direction of packets at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Received, before the network stack (`BPF_TCX_INGRESS`).
    Ingress = 46,
    /// Sent, after the network stack (`BPF_TCX_EGRESS`).
    Egress = 47,
}

/// One BPF instruction in the kernel's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    /// Operation.
    pub(crate) code: u8,
    /// Destination register in the low nibble, source register in the high one.
    pub(crate) registers: u8,
    /// Offset: instructions for a jump, bytes for memory.
    pub(crate) offset: i16,
    /// Immediate operand.
    pub(crate) immediate: i32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    padding: u32,
    expected_revision: u64,
}

const _: () = assert!(size_of::<Instruction>() == 8);
const _: () = assert!(size_of::<ProgLoad>() == 72);
const _: () = assert!(size_of::<LinkCreate>() == 32);

fn bpf<T>(command: libc::c_int, attributes: &T) -> std::io::Result<OwnedFd> {
    // SAFETY: `attributes` is a live `#[repr(C)]` value of the size that is passed, with the layout that the kernel
    // expects for `command`; both commands used here only read it. The pointers in it (instructions, licence, log)
    // belong to borrows that outlive this call.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    let descriptor = i32::try_from(answer).unwrap_or(-1);
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: both commands return a new file descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Loads a program for `hook`.
///
/// # Errors
///
/// The system's error, with the verifier's log.
pub(crate) fn load(program: &[Instruction], hook: Hook) -> std::io::Result<OwnedFd> {
    let mut attributes = ProgLoad {
        prog_type: BPF_PROG_TYPE_SCHED_CLS,
        insn_cnt: u32::try_from(program.len()).unwrap_or(u32::MAX),
        insns: program.as_ptr().addr() as u64,
        license: c"Apache-2.0".as_ptr().addr() as u64,
        expected_attach_type: hook as u32,
        ..ProgLoad::default()
    };
    let first = match bpf(BPF_PROG_LOAD, &attributes) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let mut log = vec![0_u8; 64 << 10];
    attributes.log_level = 1;
    attributes.log_size = 64 << 10;
    attributes.log_buf = log.as_mut_ptr().expose_provenance() as u64;
    // Load again with a log buffer, to get the verifier's reason.
    let _ = bpf(BPF_PROG_LOAD, &attributes);
    let text = String::from_utf8_lossy(&log);
    let text = crate::error::last_lines(text.trim_end_matches('\0'), 3);
    Err(std::io::Error::new(first.kind(), format!("{first}; verifier log: {text}")))
}

/// Attaches a program to the device of this index in the calling thread's network namespace. It stays attached as
/// long as the returned descriptor is open.
///
/// # Errors
///
/// The system's error: `EINVAL` on kernels before 6.6, `EPERM` without the privileges.
pub(crate) fn attach(program: &OwnedFd, device: u32, hook: Hook) -> std::io::Result<OwnedFd> {
    let attributes = LinkCreate {
        prog_fd: program.as_raw_fd().cast_unsigned(),
        target_ifindex: device,
        attach_type: hook as u32,
        ..LinkCreate::default()
    };
    bpf(BPF_LINK_CREATE, &attributes)
}
