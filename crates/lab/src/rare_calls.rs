//! System calls that tests make to see them refused, and that no crate wraps.

#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd};

fn check(answer: libc::c_int) -> Result<()> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Has the signals of a descriptor sent to the process `pid` (fcntl(2), F_SETOWN).
///
/// # Errors
/// The system refuses it.
pub fn set_owner(descriptor: impl AsFd, pid: i32) -> Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::fcntl(descriptor.as_fd().as_raw_fd(), libc::F_SETOWN, pid) })
}

/// The same by F_SETOWN_EX.
///
/// # Errors
/// The system refuses it.
pub fn set_owner_of_kind(descriptor: impl AsFd, pid: i32) -> Result<()> {
    // F_OWNER_PID, and the process.
    let owner = [1, pid];
    // SAFETY: the structure, two numbers, lives through the call.
    check(unsafe { libc::fcntl(descriptor.as_fd().as_raw_fd(), 15, owner.as_ptr()) })
}

/// The same by ioctl(2), FIOSETOWN.
///
/// # Errors
/// The system refuses it.
pub fn set_owner_by_ioctl(descriptor: impl AsFd, pid: i32) -> Result<()> {
    // SAFETY: the number lives through the call.
    check(unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), 0x8901, &raw const pid) })
}

/// The same by ioctl(2), SIOCSPGRP.
///
/// # Errors
/// The system refuses it.
pub fn set_group_by_ioctl(descriptor: impl AsFd, pid: i32) -> Result<()> {
    // SAFETY: the number lives through the call.
    check(unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), 0x8902, &raw const pid) })
}

/// Has the kernel send signals of a descriptor (ioctl(2), FIOASYNC).
///
/// # Errors
/// The system refuses it.
pub fn notify(descriptor: impl AsFd) -> Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the number lives through the call.
    check(unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), libc::FIOASYNC, &raw const on) })
}

/// Reads the limit of the processor time of a process (prlimit(2)); 0: this one.
///
/// # Errors
/// The system refuses it.
pub fn processor_time_limit(pid: i32) -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through the call.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_CPU, std::ptr::null(), &raw mut limit) })
}

/// Opens the root folder by open(2), which the C library does without; on other processors than x86-64 by its call.
///
/// # Errors
/// The system refuses it.
pub fn plain_open(flags: i32) -> Result<()> {
    let path = c"/".as_ptr();
    // SAFETY: the path lives through the call.
    #[cfg(target_arch = "x86_64")]
    let opened = unsafe { libc::syscall(libc::SYS_open, path, flags) as libc::c_int };
    // SAFETY: the path lives through the call.
    #[cfg(not(target_arch = "x86_64"))]
    let opened = unsafe { libc::open(path, flags) };
    check(opened)?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    check(unsafe { libc::close(opened) })
}

/// Asks for a descriptor of the root folder's mount (open_tree_attr(2), Linux 6.15), without valid arguments.
///
/// # Errors
/// The system refuses it.
pub fn open_tree_attr() -> Result<()> {
    // SAFETY: the kernel refuses an empty attribute; it reads no memory.
    check(unsafe { libc::syscall(467, -1, 0, 0, 0, 0) as libc::c_int })
}

/// Maps memory that can be executed, and unmaps it.
///
/// # Errors
/// The system refuses it.
pub fn executable_memory() -> Result<()> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which nothing refers to.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        check(libc::munmap(at, 4096))
    }
}

/// Asks for a thread in a new user namespace, which the kernel itself refuses with EINVAL (clone(2)).
///
/// # Errors
/// Always: from a filter of system calls, or from the kernel.
pub fn thread_in_new_user_namespace() -> Result<()> {
    let flags = libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM | libc::CLONE_NEWUSER;
    // SAFETY: no thread begins.
    check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as libc::c_int })
}
