//! Rules of a filter of system calls, for both interfaces of the kernel.

use std::collections::BTreeMap;

use nix::libc::c_long;
use seccompiler::SeccompRule;

/// Marks calls of the x32 interface, which other kernels than those of Debian may have (x86-64 only).
pub(super) const X32: i64 = 0x4000_0000;

/// The rules of a filter by the number of the system call.
pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Rules without a condition on arguments.
pub(super) fn rules(numbers: impl IntoIterator<Item = c_long>) -> Rules {
    let mut all: Vec<i64> = numbers.into_iter().collect();
    if cfg!(target_arch = "x86_64") {
        let of_x32: Vec<i64> = all.iter().map(|number| number | X32).collect();
        all.extend(of_x32);
    }
    all.into_iter().map(|number| (number, vec![])).collect()
}
