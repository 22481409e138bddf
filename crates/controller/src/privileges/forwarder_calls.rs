//! System calls that the forwarder does not make, or only with some arguments.
//!
//! An attacker who executes code in the forwarder must not end or steer other processes: the forwarder has the same
//! user as the supervisor and the controller. Besides kill(2), Linux sends signals for descriptors (fcntl(2), F_SETOWN)
//! and for limits (setrlimit(2), RLIMIT_CPU). Landlock's scope of signals would keep the kernel from ending the device
//! opener with the forwarder, which it does with the rights of the forwarder (`stoa_ports`, `device_opener/server.rs`).

use nix::libc::{self, c_long};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::call_rules::{Rules, X32, rules as of_all_interfaces};

/// Forbidden with any arguments: new processes (the controller recognises the forwarder by its process,
/// `operator_peers.rs`), and signals.
#[cfg(target_arch = "x86_64")]
pub(super) const FORBIDDEN: &[c_long] =
    &[libc::SYS_tkill, libc::SYS_pidfd_send_signal, libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const FORBIDDEN: &[c_long] = &[libc::SYS_tkill, libc::SYS_pidfd_send_signal];

/// It starts threads. The C library uses `clone` without `clone3`.
const BEGINS_A_THREAD: u64 = libc::CLONE_THREAD as u64;

/// Calls that send signals, whose first argument is the process: the forwarder may end itself alone, not the supervisor
/// or the controller.
const SIGNALS: [c_long; 4] =
    [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];

/// The process that gets the signals of a descriptor (asm-generic/fcntl.h): F_SETOWN, whose argument is the process,
/// and F_SETOWN_EX, whose argument is in memory. F_SETSIG, the number of the signal, remains: it goes to the owner.
const OWNER: [u64; 2] = [8, 15];
/// The same by ioctl(2), with the process in memory: FIOSETOWN and SIOCSPGRP (asm-generic/sockios.h). And TIOCSTI
/// (asm-generic/ioctls.h), which types on the terminal of the supervisor.
const IOCTLS: [u64; 3] = [0x8901, 0x8902, 0x5412];

/// Calls that open files by a path, and which argument has the flags.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(c_long, u8)] = &[(libc::SYS_open, 1), (libc::SYS_openat, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(c_long, u8)] = &[(libc::SYS_openat, 2)];

/// Numbers of x32 that x86-64 does not have: ioctl; rt_sigqueueinfo and rt_tgsigqueueinfo.
const IOCTL_OF_X32: c_long = 514;
const SIGNALS_OF_X32: [c_long; 2] = [524, 536];

/// What fails, and does not end the process: drivers enter namespaces where no opener was started (`stoa_ports`,
/// `netns.rs`), and libraries of drivers may open what only names a file (O_PATH). Landlock does not decide about such
/// descriptors, which suffice to attach a program to the packets of a control group (bpf(2)).
pub(super) fn refused() -> Result<Rules, seccompiler::Error> {
    let mut all = of_all_interfaces([libc::SYS_setns]);
    for (number, flags) in OPENS {
        let path = libc::O_PATH as u64;
        let is_path = SeccompCmpOp::MaskedEq(path);
        let is_path = SeccompCondition::new(*flags, SeccompCmpArgLen::Dword, is_path, path)?;
        let rule = SeccompRule::new(vec![is_path])?;
        let numbers = of_all_interfaces([*number]).into_keys();
        all.extend(numbers.map(|number| (number, vec![rule.clone()])));
    }
    Ok(all)
}

/// What does not exist for it: a filter cannot read flags in memory, and callers do without.
pub(super) const ABSENT: [c_long; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// What it must not call with these arguments.
pub(super) fn rules() -> Result<Rules, seccompiler::Error> {
    let is = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let one = |condition| SeccompRule::new(vec![condition]);
    let own = std::process::id().into();
    let no_thread = one(is(0, SeccompCmpOp::MaskedEq(BEGINS_A_THREAD), 0)?)?;
    let of_others = one(is(0, SeccompCmpOp::Ne, own)?)?;
    // It ends with its supervisor.
    let outlives = one(is(0, SeccompCmpOp::Eq, libc::PR_SET_PDEATHSIG as u64)?)?;
    // The C library gives 0 for this process.
    let limits_of_others = one(is(0, SeccompCmpOp::Ne, 0)?)?;
    let [own_or_other, any_owner] = OWNER;
    // DPDK's net_tap driver names its own process.
    let owners = vec![
        SeccompRule::new(vec![
            is(1, SeccompCmpOp::Eq, own_or_other)?,
            is(2, SeccompCmpOp::Ne, own)?,
        ])?,
        one(is(1, SeccompCmpOp::Eq, any_owner)?)?,
    ];
    let ioctls = IOCTLS.into_iter().map(|request| Ok(one(is(1, SeccompCmpOp::Eq, request)?)?));
    let ioctls = ioctls.collect::<Result<Vec<_>, seccompiler::Error>>()?;
    let mut all = Rules::new();
    for (numbers, of_x32, rules) in [
        (&[libc::SYS_clone][..], &[][..], vec![no_thread]),
        (&SIGNALS[..], &SIGNALS_OF_X32[..], vec![of_others]),
        (&[libc::SYS_prctl][..], &[][..], vec![outlives]),
        (&[libc::SYS_prlimit64][..], &[][..], vec![limits_of_others]),
        (&[libc::SYS_fcntl][..], &[][..], owners),
        (&[libc::SYS_ioctl][..], &[IOCTL_OF_X32][..], ioctls),
    ] {
        let numbers = of_all_interfaces(numbers.iter().copied()).into_keys();
        all.extend(numbers.map(|number| (number, rules.clone())));
        if cfg!(target_arch = "x86_64") {
            all.extend(of_x32.iter().map(|number| (number | X32, rules.clone())));
        }
    }
    Ok(all)
}
