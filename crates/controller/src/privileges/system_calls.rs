//! System calls that no process of the router makes, as a seccomp filter. A process that makes one of them executes
//! foreign code: the kernel ends it and writes that to the audit log, and the supervisor starts it again.
//!
//! The device opener has the opposite, a list of what it may call (`opener_calls.rs`).

use std::collections::BTreeMap;

use nix::libc::{self, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::confine::Process;
use super::opener_calls;

/// Programs, other processes, mounts, kernel modules, keys, clocks, users, and interfaces of the kernel with a large
/// attack surface.
const FORBIDDEN: [c_long; 55] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_personality,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
];

/// The forwarder starts threads, and no processes: the controller recognises it by its process
/// (`operator_peers.rs`). The flags of `clone3` are out of reach of a filter; the C library uses `clone` without it.
const BEGINS_A_THREAD: u64 = libc::CLONE_THREAD as u64;
#[cfg(target_arch = "x86_64")]
const FORKS: &[c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[c_long] = &[];

/// Calls that send signals, whose first argument is the process: the forwarder may end itself alone, not the supervisor
/// or the controller.
const SIGNALS: [c_long; 4] =
    [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];
/// The same by other means.
const FORBIDDEN_TO_FORWARDER: [c_long; 2] = [libc::SYS_tkill, libc::SYS_pidfd_send_signal];

/// What only a controller must not call besides: the forwarder loads XDP programs.
const FORBIDDEN_TO_CONTROLLER: [c_long; 1] = [libc::SYS_bpf];

/// Marks calls of the x32 interface, which other kernels than those of Debian may have (x86-64 only).
const X32: i64 = 0x4000_0000;
/// Numbers of x32 that x86-64 does not have: execve, ptrace, kexec_load, process_vm_readv and _writev, execveat.
const OF_X32: [i64; 6] = [520, 521, 528, 539, 540, 545];

/// The rules of a filter by the number of the system call.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Ends this process, from now on, when it makes a system call that `process` must not make. Threads and programs that
/// it starts inherit the filter.
pub(super) fn forbid(process: Process) -> Result<(), seccompiler::Error> {
    if process != Process::Controller {
        let without = SeccompAction::Errno(libc::ENOSYS as u32);
        seccompiler::apply_filter(&program(rules([libc::SYS_clone3]), without)?)?;
    }
    seccompiler::apply_filter(&filter(process)?)
}

/// Rules without a condition on arguments, for both interfaces of the kernel.
fn rules(numbers: impl IntoIterator<Item = c_long>) -> Rules {
    let mut all: Vec<i64> = numbers.into_iter().collect();
    if cfg!(target_arch = "x86_64") {
        let of_x32: Vec<i64> = all.iter().map(|number| number | X32).collect();
        all.extend(of_x32);
    }
    all.into_iter().map(|number| (number, vec![])).collect()
}

fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?)?)
}

/// What the forwarder may call only with other arguments.
fn of_forwarder() -> Result<Rules, seccompiler::Error> {
    let first = |operator, value| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let no_thread = first(SeccompCmpOp::MaskedEq(BEGINS_A_THREAD), 0)?;
    let of_others = first(SeccompCmpOp::Ne, std::process::id().into())?;
    // It ends with its supervisor.
    let outlives = first(SeccompCmpOp::Eq, libc::PR_SET_PDEATHSIG as u64)?;
    let mut all = Rules::new();
    for (numbers, rule) in [
        (&[libc::SYS_clone][..], no_thread),
        (&SIGNALS[..], of_others),
        (&[libc::SYS_prctl][..], outlives),
    ] {
        let numbers = rules(numbers.iter().copied()).into_keys();
        all.extend(numbers.map(|number| (number, vec![rule.clone()])));
    }
    Ok(all)
}

fn filter(process: Process) -> Result<BpfProgram, seccompiler::Error> {
    let more = match process {
        Process::Forwarder => [FORKS, &FORBIDDEN_TO_FORWARDER].concat(),
        Process::Controller => FORBIDDEN_TO_CONTROLLER.to_vec(),
        Process::DeviceOpener => {
            // The rest fails: the process is not restarted without its forwarder.
            let otherwise = SeccompAction::Errno(libc::EPERM as u32);
            let arch = TargetArch::try_from(std::env::consts::ARCH)?;
            let rules = opener_calls::rules()?;
            let filter = SeccompFilter::new(rules, otherwise, SeccompAction::Allow, arch)?;
            return Ok(BpfProgram::try_from(filter)?);
        }
    };
    let mut all = rules(FORBIDDEN.into_iter().chain(more));
    if cfg!(target_arch = "x86_64") {
        all.extend(OF_X32.map(|number| (number | X32, vec![])));
    }
    if process == Process::Forwarder {
        all.extend(of_forwarder()?);
    }
    program(all, SeccompAction::KillProcess)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use nix::errno::Errno;
    use nix::sched::CloneFlags;

    use super::*;

    const ALONE: &str = "STOA_TEST_FORBIDDEN";

    /// Runs this test in a process of its own, which the filter may end; returns the signal that ended it.
    fn alone(process: &str, call: &str) -> Option<i32> {
        let test = "privileges::system_calls::tests::a_forbidden_call_ends_the_process";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", test]).env(ALONE, format!("{process} {call}")).output();
        let output = output.unwrap();
        let ended = output.status.signal();
        assert!(ended.is_some() || output.status.success(), "{output:?}");
        ended
    }

    #[test]
    fn a_forbidden_call_ends_the_process() {
        if let Ok(what) = std::env::var(ALONE) {
            let process = match what.split_once(' ').unwrap().0 {
                "forwarder" => Process::Forwarder,
                "controller" => Process::Controller,
                _ => Process::DeviceOpener,
            };
            forbid(process).unwrap();
            match what.split_once(' ').unwrap().1 {
                "unshare" => drop(nix::sched::unshare(CloneFlags::CLONE_FILES)),
                "execve" => {
                    let error = nix::unistd::execv(c"/bin/true", &[c"/bin/true"]);
                    panic!("{error:?}");
                }
                "fork" => drop(std::process::Command::new("/bin/true").status()),
                "signal" => drop(nix::sys::signal::kill(nix::unistd::getppid(), None)),
                "outlive" => drop(nix::sys::prctl::set_pdeathsig(None)),
                "abort" => std::process::abort(),
                "opener" => be_opener(),
                _ => drop(std::thread::spawn(|| std::fs::read("/proc/self/status")).join()),
            }
            return;
        }
        for process in ["forwarder", "controller"] {
            for call in ["unshare", "execve"] {
                assert_eq!(alone(process, call), Some(libc::SIGSYS), "{process} {call}");
            }
            assert_eq!(alone(process, "other"), None, "{process}");
        }
        // The controller's child would end when it executes the program.
        for call in ["fork", "signal", "outlive"] {
            assert_eq!(alone("forwarder", call), Some(libc::SIGSYS), "{call}");
        }
        assert_eq!(alone("forwarder", "abort"), Some(libc::SIGABRT), "it may end itself");
        assert_eq!(alone("opener", "opener"), None);
    }

    /// What the opener must not do fails; what it does works.
    fn be_opener() {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

        let open = |family, kind| socket(family, kind, SockFlag::empty(), None).map(drop);
        for family in [AddressFamily::Unix, AddressFamily::Inet, AddressFamily::Inet6] {
            assert_eq!(open(family, SockType::Stream), Err(Errno::EPERM), "{family:?}");
        }
        assert_eq!(open(AddressFamily::Netlink, SockType::Raw), Ok(()));
        let own = std::fs::File::open("/proc/self/ns/mnt").unwrap();
        assert_eq!(nix::sched::setns(&own, CloneFlags::CLONE_NEWNS), Err(Errno::EPERM));
        assert_eq!(nix::sched::setns(&own, CloneFlags::empty()), Err(Errno::EPERM), "of any kind");
        // The kernel, not the filter: it is of another kind.
        let of_network = nix::sched::setns(&own, CloneFlags::CLONE_NEWNET);
        assert_eq!(of_network, Err(Errno::EINVAL));
        assert_eq!(nix::sched::unshare(CloneFlags::CLONE_FILES), Err(Errno::EPERM));
        assert!(std::process::Command::new("/bin/true").status().is_err());
        assert_eq!(nix::sys::signal::kill(nix::unistd::getppid(), None), Err(Errno::EPERM));
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        // The harness of the test needs more than the opener.
        std::process::exit(0);
    }
}
