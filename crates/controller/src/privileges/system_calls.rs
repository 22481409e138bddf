//! System calls that no process of the router makes, as a seccomp filter. A process that makes one of them executes
//! foreign code: the kernel ends it and writes that to the audit log, and the supervisor starts it again.

use std::collections::BTreeMap;

use nix::libc::{self, c_long};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::confine::Process;

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

/// What only a controller must not call besides: the forwarder loads XDP programs.
const FORBIDDEN_TO_CONTROLLER: [c_long; 1] = [libc::SYS_bpf];

/// Marks calls of the x32 interface, which other kernels than those of Debian may have (x86-64 only).
const X32: i64 = 0x4000_0000;
/// Numbers of x32 that x86-64 does not have: execve, ptrace, kexec_load, process_vm_readv and _writev, execveat.
const OF_X32: [i64; 6] = [520, 521, 528, 539, 540, 545];

/// Ends this process, from now on, when it makes a system call that `process` must not make. Threads and programs that
/// it starts inherit the filter.
pub(super) fn forbid(process: Process) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(&filter(process)?)
}

fn filter(process: Process) -> Result<BpfProgram, seccompiler::Error> {
    let more: &[c_long] = match process {
        Process::Forwarder => &[],
        Process::Controller => &FORBIDDEN_TO_CONTROLLER,
    };
    let numbers = FORBIDDEN.iter().chain(more).copied();
    let mut all: Vec<i64> = numbers.collect();
    if cfg!(target_arch = "x86_64") {
        let of_x32: Vec<i64> = all.iter().chain(&OF_X32).map(|number| number | X32).collect();
        all.extend(of_x32);
    }
    // Without a condition on arguments.
    let rules: BTreeMap<i64, Vec<_>> = all.into_iter().map(|number| (number, vec![])).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::KillProcess, arch)?;
    Ok(BpfProgram::try_from(filter)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use nix::sched::CloneFlags;

    use super::*;

    const ALONE: &str = "STOA_TEST_FORBIDDEN";

    /// Runs this test in a process of its own, which the filter may end; returns the signal that ended it.
    fn alone(process: &str, call: &str) -> Option<i32> {
        let test = "privileges::system_calls::tests::a_forbidden_call_ends_the_process";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", test]).env(ALONE, format!("{process} {call}")).output();
        output.unwrap().status.signal()
    }

    #[test]
    fn a_forbidden_call_ends_the_process() {
        if let Ok(what) = std::env::var(ALONE) {
            let process =
                if what.starts_with("f") { Process::Forwarder } else { Process::Controller };
            forbid(process).unwrap();
            match what.split_once(' ').unwrap().1 {
                "unshare" => drop(nix::sched::unshare(CloneFlags::CLONE_FILES)),
                "execve" => {
                    let error = nix::unistd::execv(c"/bin/true", &[c"/bin/true"]);
                    panic!("{error:?}");
                }
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
    }
}
