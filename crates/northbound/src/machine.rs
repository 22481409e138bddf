//! The name of the machine.

/// The host name of the kernel; empty if it cannot be read.
pub(crate) fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
