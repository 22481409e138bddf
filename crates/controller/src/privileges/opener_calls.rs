//! System calls that the device opener makes: it receives requests, and for each begins a thread that enters a network
//! namespace and opens something there. All others fail.
//!
//! It has CAP_SYS_ADMIN. It connects to nothing: the controller refuses the forwarder at the operator's socket, and the
//! opener must not be a way around (`operator_peers.rs`).

use std::collections::BTreeMap;

use nix::libc::{self, c_long};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// Allowed with any arguments.
const ALLOWED: [c_long; 42] = [
    // Requests and answers, files, the log on standard error.
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    // Memory, threads and the end of the process, as the C library and Rust do them.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The commands of bpf(2) that it uses (linux/bpf.h): BPF_MAP_CREATE, BPF_PROG_LOAD, BPF_LINK_CREATE.
const BPF: [u64; 3] = [0, 5, 28];

/// The families of sockets that drivers use.
const FAMILIES: [i32; 3] = [libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];

/// What it may call, by the number of the system call.
pub(super) fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let is = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let equal = |argument, value| is(argument, SeccompCmpOp::Eq, value);
    let thread = libc::CLONE_THREAD as u64;
    let own = u64::from(std::process::id());
    let mut all: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|number| (*number, vec![])).collect();
    for (number, rules) in [
        (libc::SYS_socket, FAMILIES.map(|family| equal(0, family as u64)).into()),
        (libc::SYS_setns, vec![equal(1, libc::CLONE_NEWNET as u64)]),
        (libc::SYS_bpf, BPF.map(|command| equal(0, command)).into()),
        (libc::SYS_clone, vec![is(0, SeccompCmpOp::MaskedEq(thread), thread)]),
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)]),
        // To abort.
        (libc::SYS_tgkill, vec![equal(0, own)]),
    ] {
        all.insert(number, rules.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(all)
}
