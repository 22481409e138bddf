//! System calls that no process of the router makes, as a seccomp filter. A process that makes one of them executes
//! foreign code: the kernel ends it and writes that to the audit log, and the supervisor starts it again.
//!
//! The device opener has the opposite, a list of what it may call (`opener_calls.rs`).

use nix::libc::{self, c_long};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::call_rules::{Rules, X32, rules};
use super::confine::Process;
use super::{forwarder_calls, opener_calls};

/// Programs, other processes, mounts, kernel modules, keys, clocks, users, and interfaces of the kernel with a large
/// attack surface.
const FORBIDDEN: [c_long; 56] = [
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
    OPEN_TREE_ATTR,
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

/// Since Linux 6.15, with the same number for all processors (asm-generic/unistd.h).
const OPEN_TREE_ATTR: c_long = 467;

/// What only a controller must not call besides: the forwarder loads XDP programs.
const FORBIDDEN_TO_CONTROLLER: [c_long; 1] = [libc::SYS_bpf];

/// Numbers of x32 that x86-64 does not have: execve, ptrace, kexec_load, process_vm_readv and _writev, execveat.
const OF_X32: [i64; 6] = [520, 521, 528, 539, 540, 545];

/// Ends this process, from now on, when it makes a system call that `process` must not make. Threads and programs that
/// it starts inherit the filter.
pub(super) fn forbid(process: Process) -> Result<(), seccompiler::Error> {
    if process != Process::Controller {
        let without = SeccompAction::Errno(libc::ENOSYS as u32);
        seccompiler::apply_filter(&program(rules(forwarder_calls::ABSENT), without)?)?;
    }
    if process == Process::Forwarder {
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        seccompiler::apply_filter(&program(forwarder_calls::refused()?, refused)?)?;
    }
    seccompiler::apply_filter(&filter(process)?)
}

fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?)?)
}

fn filter(process: Process) -> Result<BpfProgram, seccompiler::Error> {
    let more = match process {
        Process::Forwarder => forwarder_calls::FORBIDDEN.to_vec(),
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
        all.extend(forwarder_calls::rules()?);
    }
    program(all, SeccompAction::KillProcess)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use std::io::Result;
    use std::os::fd::{AsFd, AsRawFd};

    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, OFlag, OpenHow, fcntl, open, openat, openat2};
    use nix::sched::{CloneFlags, setns};
    use nix::sys::stat::Mode;
    use stoa_lab::rare_calls;

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
                "owner" => drop(rare_calls::set_owner(socket(), parent())),
                "owner-ex" => drop(rare_calls::set_owner_of_kind(socket(), parent())),
                "owner-ioctl" => drop(rare_calls::set_owner_by_ioctl(socket(), parent())),
                "group-ioctl" => drop(rare_calls::set_group_by_ioctl(socket(), parent())),
                "open-tree" => drop(rare_calls::open_tree_attr()),
                "limit" => drop(rare_calls::processor_time_limit(parent())),
                "forwarder" => be_forwarder().unwrap(),
                "opener" => be_opener(),
                _ => drop(std::thread::spawn(|| std::fs::read("/proc/self/status")).join()),
            }
            return;
        }
        for process in ["forwarder", "controller"] {
            for call in ["unshare", "execve", "open-tree"] {
                assert_eq!(alone(process, call), Some(libc::SIGSYS), "{process} {call}");
            }
            assert_eq!(alone(process, "other"), None, "{process}");
        }
        // The controller's child would end when it executes the program.
        for call in [
            "fork",
            "signal",
            "outlive",
            "owner",
            "owner-ex",
            "owner-ioctl",
            "group-ioctl",
            "limit",
        ] {
            assert_eq!(alone("forwarder", call), Some(libc::SIGSYS), "{call}");
        }
        assert_eq!(alone("forwarder", "abort"), Some(libc::SIGABRT), "it may end itself");
        assert_eq!(alone("forwarder", "forwarder"), None);
        assert_eq!(alone("opener", "opener"), None);
    }

    fn parent() -> i32 {
        nix::unistd::getppid().as_raw()
    }

    fn socket() -> std::os::unix::net::UnixDatagram {
        std::os::unix::net::UnixDatagram::unbound().unwrap()
    }

    /// What drivers and libraries do works; to enter a namespace fails.
    fn be_forwarder() -> Result<()> {
        let own = std::fs::File::open("/proc/self/ns/net")?;
        assert_eq!(setns(&own, CloneFlags::CLONE_NEWNET), Err(Errno::EPERM));
        let socket = socket();
        // A driver of DPDK has signals of its devices sent to its own process.
        rare_calls::set_owner(&socket, std::process::id().cast_signed())?;
        rare_calls::processor_time_limit(0)?;
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        socket.as_fd().try_clone_to_owned()?;
        rare_calls::notify(&socket)?;
        let folder = open("/", OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
        std::fs::read_dir("/proc/self/fd")?;
        // What only names a file.
        for flags in [OFlag::O_PATH, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC] {
            assert_eq!(open("/", flags, Mode::empty()).map(drop), Err(Errno::EPERM));
            assert_eq!(openat(&folder, "proc", flags, Mode::empty()).map(drop), Err(Errno::EPERM));
            let how = OpenHow::new().flags(flags);
            assert_eq!(openat2(&folder, "proc", how).map(drop), Err(Errno::ENOSYS));
            if cfg!(target_arch = "x86_64") {
                let error = rare_calls::plain_open(flags.bits()).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EPERM), "open(2)");
            }
        }
        rare_calls::plain_open(libc::O_RDONLY)?;
        Ok(())
    }

    /// What the opener must not do fails; what it does works.
    fn be_opener() {
        use nix::sys::socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg, socket,
        };

        let open = |family, kind| socket(family, kind, SockFlag::empty(), None).map(drop);
        let netlink = |protocol| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)
        };
        for family in [AddressFamily::Unix, AddressFamily::Inet, AddressFamily::Inet6] {
            assert_eq!(open(family, SockType::Stream), Err(Errno::EPERM), "{family:?}");
        }
        assert_eq!(open(AddressFamily::Netlink, SockType::Raw), Ok(()));
        assert_eq!(open(AddressFamily::Netlink, SockType::Datagram), Err(Errno::EPERM));
        let route = netlink(SockProtocol::NetlinkRoute).unwrap();
        assert!(netlink(SockProtocol::NetlinkGeneric).is_ok());
        assert_eq!(netlink(SockProtocol::NetlinkAudit).map(drop), Err(Errno::EPERM));
        // Copies of descriptors, and their flags, and nothing else.
        assert!(route.try_clone().is_ok());
        assert!(fcntl(&route, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok());
        assert_eq!(fcntl(&route, FcntlArg::F_GETPIPE_SZ), Err(Errno::EPERM));
        let none = &mut [][..];
        let received = recvmsg::<()>(route.as_raw_fd(), none, None, MsgFlags::empty());
        assert_eq!(received.map(drop), Err(Errno::EPERM));
        let refused =
            |done: Result<()>| done.map_err(|error| error.raw_os_error()) == Err(Some(libc::EPERM));
        let path = nix::fcntl::open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        assert_eq!(path.map(drop), Err(Errno::EPERM));
        assert!(refused(rare_calls::executable_memory()));
        assert!(refused(rare_calls::thread_in_new_user_namespace()));
        let own = std::fs::File::open("/proc/self/ns/mnt").unwrap();
        assert_eq!(setns(&own, CloneFlags::CLONE_NEWNS), Err(Errno::EPERM));
        assert_eq!(setns(&own, CloneFlags::empty()), Err(Errno::EPERM), "of any kind");
        // The kernel, not the filter: it is of another kind.
        let of_network = setns(&own, CloneFlags::CLONE_NEWNET);
        assert_eq!(of_network, Err(Errno::EINVAL));
        assert_eq!(nix::sched::unshare(CloneFlags::CLONE_FILES), Err(Errno::EPERM));
        assert!(std::process::Command::new("/bin/true").status().is_err());
        assert_eq!(nix::sys::signal::kill(nix::unistd::getppid(), None), Err(Errno::EPERM));
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        // The harness of the test needs more than the opener.
        std::process::exit(0);
    }
}
