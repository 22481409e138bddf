//! Why the kernel does not let this thread use AF_XDP, and what would change that.

use std::fs::read_to_string;
use std::io::Error;

use stoa_engine::capabilities;

/// Capabilities (linux/capability.h) by name and bit.
const NET_ADMIN: (&str, u8) = ("CAP_NET_ADMIN", 12);
const NET_RAW: (&str, u8) = ("CAP_NET_RAW", 13);
const SYS_ADMIN: (&str, u8) = ("CAP_SYS_ADMIN", 21);
const BPF: (&str, u8) = ("CAP_BPF", 39);

/// The rights that the kernel checks.
#[derive(Clone, Debug)]
pub(super) struct Rights {
    /// Effective capabilities, one bit each; `None`: unknown.
    capabilities: Option<u64>,
    /// `kernel.unprivileged_bpf_disabled`.
    bpf_disabled: Option<String>,
    /// The user is root, perhaps in a container.
    is_root: bool,
    /// Root only inside a user namespace.
    in_user_namespace: bool,
    /// Bytes that may be locked, where this kernel counts BPF against them.
    memlock: Option<u64>,
}

impl Rights {
    /// Those of the calling thread.
    pub fn now() -> Self {
        let status = read_to_string("/proc/thread-self/status").unwrap_or_default();
        let map = read_to_string("/proc/self/uid_map").unwrap_or_default();
        let disabled = read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").ok();
        let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            capabilities: status.lines().find_map(|line| {
                u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok()
            }),
            is_root: nix::unistd::geteuid().is_root(),
            bpf_disabled: disabled.map(|text| text.trim().to_owned()),
            // The first namespace maps all 2^32 - 1 users to themselves.
            in_user_namespace: !map.is_empty()
                && map.split_whitespace().ne(["0", "0", "4294967295"]),
            memlock: memlock().filter(|_| counts_bpf(&release)),
        }
    }

    fn has(&self, (_, bit): (&str, u8)) -> bool {
        self.capabilities.is_none_or(|held| held >> bit & 1 != 0)
    }

    /// Capabilities that an AF_XDP port needs and that are not there.
    fn missing(&self) -> Vec<&'static str> {
        let all_in_one = self.has(SYS_ADMIN);
        let needed = [(NET_ADMIN, all_in_one), (NET_RAW, false), (BPF, all_in_one)];
        let lacks =
            |(capability, other): &((&'static str, u8), bool)| !self.has(*capability) && !other;
        needed.iter().filter(|one| lacks(one)).map(|((name, _), _)| *name).collect()
    }

    /// Whether capabilities are missing: then all other errors follow from that.
    pub fn are_too_few(&self) -> bool {
        !self.missing().is_empty()
    }

    /// What is missing, and what to do about it.
    pub fn words(&self) -> String {
        let missing = self.missing();
        if !missing.is_empty() {
            let verb = if missing.len() == 1 { "is" } else { "are" };
            let names = missing.join(", ");
            let sysctl = match &self.bpf_disabled {
                Some(value) if missing.contains(&BPF.0) && value != "0" => {
                    format!(" (kernel.unprivileged_bpf_disabled = {value})")
                }
                _ => String::new(),
            };
            let fix = capabilities::fix_for(self.is_root, &missing);
            return format!("{names} {verb} missing{sysctl}: {fix}");
        }
        if self.in_user_namespace {
            return "capabilities of a user namespace do not count for BPF: run outside of it, or \
                    use af-packet"
                .into();
        }
        if let Some(bytes) = self.memlock {
            let kibibytes = bytes >> 10;
            return format!(
                "no capability is missing, but only {kibibytes} KiB may be locked, which Linux \
                 before 5.11 counts for BPF: raise `ulimit -l`"
            );
        }
        "no capability is missing: a security module, lockdown or a seccomp filter (of a container) \
         forbids bpf(2); allow it, or use af-packet"
            .into()
    }
}

/// The soft limit of locked memory in bytes; `None`: there is none.
fn memlock() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes the struct that lives through the call; on a failure it stays.
    let _ = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Whether that kernel counts maps and programs as locked memory.
fn counts_bpf(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) < (Some(5), Some(11)) && !release.is_empty()
}

/// What the system refused, and what to do about it.
pub(super) fn refusal(name: &str, doing: &str, error: &Error) -> String {
    let fix = match error.raw_os_error() {
        _ if doing.starts_with("attach") && super::attach::is_taken(error) => {
            format!("another XDP program is there: ip link set dev {name} xdp off")
        }
        Some(libc::EBUSY) => "another AF_XDP socket has it".into(),
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            "too little memory may be locked: raise `ulimit -l`, or give CAP_IPC_LOCK".into()
        }
        Some(libc::EPERM | libc::EACCES) => Rights::now().words(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSPC | libc::ERANGE) => {
            "the device's driver does not support it: choose attach generic and bind copy, or \
             af-packet"
                .into()
        }
        _ => return format!("cannot {doing} on {name}: {error}"),
    };
    format!("cannot {doing} on {name}: {error}; {fix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Rights {
        Rights {
            capabilities: Some(u64::MAX),
            is_root: false,
            bpf_disabled: Some("2".into()),
            in_user_namespace: false,
            memlock: None,
        }
    }

    fn without(bits: &[(&str, u8)]) -> Rights {
        let held = bits.iter().fold(u64::MAX, |held, (_, bit)| held & !(1 << bit));
        Rights { capabilities: Some(held), ..all() }
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = without(&[NET_ADMIN, NET_RAW, BPF, SYS_ADMIN]).words();
        assert!(none.starts_with("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF are missing"), "{none}");
        assert!(none.contains("kernel.unprivileged_bpf_disabled = 2"), "{none}");
        let one = without(&[BPF, SYS_ADMIN]).words();
        assert!(one.starts_with("CAP_BPF is missing (kernel."), "{one}");
        let other = without(&[NET_ADMIN, SYS_ADMIN]).words();
        assert!(other.starts_with("CAP_NET_ADMIN is missing: run"), "{other}");
        let open = Rights { bpf_disabled: Some("0".into()), ..without(&[BPF, SYS_ADMIN]) };
        assert!(open.words().starts_with("CAP_BPF is missing: run"), "{}", open.words());
        let root = Rights { is_root: true, ..without(&[BPF, SYS_ADMIN]) }.words();
        assert!(root.contains("--cap-add BPF,") && !root.contains("run as root"), "{root}");
        assert!(!without(&[BPF, NET_ADMIN]).are_too_few(), "CAP_SYS_ADMIN stands for them");
    }

    #[test]
    fn with_all_capabilities_the_rest_is_looked_at() {
        let namespace = Rights { in_user_namespace: true, ..all() };
        assert!(namespace.words().contains("user namespace"));
        let memory = Rights { memlock: Some(64 << 10), ..all() };
        assert!(memory.words().contains("64 KiB") && memory.words().contains("ulimit -l"));
        assert!(all().words().contains("seccomp"));
        let unknown = Rights { capabilities: None, ..all() };
        assert!(!unknown.are_too_few());
    }

    #[test]
    fn old_kernels_count_bpf_as_locked_memory() {
        assert!(counts_bpf("5.10.0-28-amd64\n") && counts_bpf("4.19.1"));
        assert!(!counts_bpf("5.11.0") && !counts_bpf("6.18.44-one") && !counts_bpf(""));
    }
}
