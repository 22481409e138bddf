//! System calls that the device opener makes: it receives requests, and for each begins a thread that enters a network
//! namespace and opens something there. All others fail.
//!
//! It has CAP_SYS_ADMIN. It connects to nothing: the controller refuses the forwarder at the operator's socket, and the
//! opener must not be a way around (`operator_peers.rs`).

use std::collections::BTreeMap;

use nix::libc::{self, c_long};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// Allowed with any arguments.
const ALLOWED: [c_long; 37] = [
    // Requests and answers, files, the log on standard error.
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
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
    // Memory, threads and the end of the process, as the C library and Rust do them.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
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

/// The sockets that drivers use, by family and protocol; all are raw. `netdevice::socket` adds two flags to the type.
const SOCKETS: [(i32, i32); 4] = [
    (libc::AF_NETLINK, libc::NETLINK_ROUTE),
    (libc::AF_NETLINK, libc::NETLINK_GENERIC),
    (libc::AF_PACKET, 0),
    (libc::AF_XDP, 0),
];
/// The type of a socket, without its flags.
const SOCKET_TYPE: u64 = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u32 as u64;

/// Commands of fcntl(2): none that sends signals.
const FCNTL: [i32; 5] =
    [libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];

/// A new namespace of any kind, besides CLONE_NEWTIME, which clone(2) does not have.
const NEW_NAMESPACE: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// What it may call, by the number of the system call.
pub(super) fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let is = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let one = |condition| SeccompRule::new(vec![condition]);
    let equal = |argument, value| one(is(argument, SeccompCmpOp::Eq, value)?);
    let socket = |(family, protocol): (i32, i32)| {
        SeccompRule::new(vec![
            is(0, SeccompCmpOp::Eq, family as u64)?,
            is(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), libc::SOCK_RAW as u64)?,
            is(2, SeccompCmpOp::Eq, protocol as u64)?,
        ])
    };
    let thread = libc::CLONE_THREAD as u64;
    let only_thread = SeccompCmpOp::MaskedEq(thread | u64::from(NEW_NAMESPACE.cast_unsigned()));
    let not_executed = || one(is(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?);
    let no_path = SeccompCmpOp::MaskedEq(libc::O_PATH as u64);
    let own = u64::from(std::process::id());
    let mut all: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|number| (*number, vec![])).collect();
    for (number, rules) in [
        (libc::SYS_socket, SOCKETS.map(socket).into()),
        // Landlock does not decide about what only names a file.
        (libc::SYS_openat, vec![is(2, no_path, 0).and_then(one)]),
        (libc::SYS_fcntl, FCNTL.map(|command| equal(1, command as u64)).into()),
        (libc::SYS_mmap, vec![not_executed()]),
        (libc::SYS_mprotect, vec![not_executed()]),
        (libc::SYS_setns, vec![equal(1, libc::CLONE_NEWNET as u64)]),
        (libc::SYS_bpf, BPF.map(|command| equal(0, command)).into()),
        (libc::SYS_clone, vec![is(0, only_thread, thread).and_then(one)]),
        (libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)]),
        // To abort.
        (libc::SYS_tgkill, vec![equal(0, own)]),
    ] {
        all.insert(number, rules.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(all)
}
