//! Properties of the machine, read from files. What cannot be read is `None` or 0, not an error.

use std::path::{Path, PathBuf};

/// The properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// CPU flags of /proc/cpuinfo.
    pub flags: Vec<String>,
    /// CPUs that are online.
    pub cpus: usize,
    /// CPUs that this process may run on.
    pub allowed: usize,
    /// The CPU quota of the control group; `None`: none.
    pub quota: Option<f64>,
    /// Isolated CPUs (isolcpus), as a list.
    pub isolated: String,
    /// CPUs without a timer tick (nohz_full), as a list.
    pub tickless: String,
    /// The frequency governor of the first CPU.
    pub governor: Option<String>,
    /// The kernel's clock source.
    pub clock: String,
    /// Version of the kernel.
    pub kernel: String,
    /// Socket protocols of the kernel.
    pub protocols: Vec<String>,
    /// Whether /dev/net/tun exists, and whether it can be opened.
    pub tun: (bool, bool),
    /// Whether the user is root, perhaps in a container.
    pub is_root: bool,
    /// Effective capabilities as bits; `None`: not known.
    pub capabilities: Option<u64>,
    /// Soft limits: locked memory in bytes, open files; `u64::MAX`: no limit.
    pub limits: (u64, u64),
    /// Total and available memory, kB.
    pub memory: (u64, u64),
    /// Huge pages: size in kB, total, free, reserved by other processes.
    pub huge_pages: (u64, u64, u64, u64),
    /// Setting of transparent huge pages: `always`, `madvise`, `never`.
    pub transparent: Option<String>,
    /// The same for memory that processes share: `always`, `within_size`, `advise`, `never`, `deny`, `force`.
    pub transparent_shared: Option<String>,
    /// Whether the kernel has network namespaces.
    pub namespaces: bool,
    /// NUMA nodes by number.
    pub nodes: Vec<Node>,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its number in Linux.
    pub number: u32,
    /// Its CPUs, as a list; empty: it has memory only.
    pub cpus: String,
    /// Reserved huge pages of 2 MiB, free or in use.
    pub huge_pages: u64,
}

struct Root<'a>(&'a Path);

impl Root<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn word(&self, path: &str) -> String {
        self.text(path).trim().to_owned()
    }

    fn nodes(&self) -> Vec<Node> {
        const NODES: &str = "/sys/devices/system/node";
        let folder = std::fs::read_dir(self.path(NODES)).into_iter().flatten();
        let node = |entry: std::io::Result<std::fs::DirEntry>| {
            let number = entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let folder = format!("{NODES}/node{number}");
            let huge_pages = format!("{folder}/hugepages/hugepages-2048kB/nr_hugepages");
            Some(Node {
                number,
                cpus: self.word(&format!("{folder}/cpulist")),
                huge_pages: first_number(Some(&self.text(&huge_pages))),
            })
        };
        let mut nodes: Vec<Node> = folder.filter_map(node).collect();
        nodes.sort_by_key(|node| node.number);
        nodes
    }
}

/// The value after `name` and a colon or spaces in a text of lines.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.trim_start_matches([' ', '\t', ':']).trim())
}

fn first_number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A soft limit of /proc/self/limits.
fn limit(text: &str, name: &str) -> u64 {
    match field(text, name).and_then(|rest| rest.split_whitespace().next()) {
        Some("unlimited") => u64::MAX,
        word => word.and_then(|word| word.parse().ok()).unwrap_or(0),
    }
}

/// The number of CPUs in a list such as "0-3,8".
pub fn count(list: &str) -> usize {
    let one = |part: &str| match part.split_once('-') {
        Some((from, to)) => match (from.parse::<usize>(), to.parse::<usize>()) {
            (Ok(from), Ok(to)) if from <= to && to < 1 << 16 => to - from + 1,
            _ => 0,
        },
        None => usize::from(part.parse::<usize>().is_ok()),
    };
    list.trim().split(',').map(one).sum()
}

/// The quota of cpu.max: "50000 100000" is half a CPU.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<u32>().ok()?, period.parse::<u32>().ok()?);
    (period > 0).then(|| f64::from(quota) / f64::from(period))
}

impl Machine {
    /// Reads the files below `root`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let root = Root(root);
        let info = root.text("/proc/cpuinfo");
        let status = root.text("/proc/self/status");
        let limits = root.text("/proc/self/limits");
        let memory = root.text("/proc/meminfo");
        let kb = |name| first_number(field(&memory, name));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let tun = root.path("/dev/net/tun");
        let protocols = root.text("/proc/net/protocols");
        let transparent = |setting: &str| {
            let all = root.text(&format!("/sys/kernel/mm/transparent_hugepage/{setting}"));
            let chosen = all.split_whitespace().find_map(|word| word.strip_prefix('['));
            chosen.map(|word| word.trim_end_matches(']').to_owned())
        };
        let governor = root.word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        Self {
            processor: field(&info, "model name").unwrap_or("unknown").to_owned(),
            flags: words(field(&info, "flags").unwrap_or_default()),
            cpus: count(&root.word("/sys/devices/system/cpu/online")),
            allowed: count(field(&status, "Cpus_allowed_list").unwrap_or_default()),
            quota: quota(&root.text("/sys/fs/cgroup/cpu.max")),
            isolated: root.word("/sys/devices/system/cpu/isolated"),
            tickless: root.word("/sys/devices/system/cpu/nohz_full"),
            governor: (!governor.is_empty()).then_some(governor),
            clock: root.word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            kernel: root.word("/proc/sys/kernel/osrelease"),
            protocols: protocols
                .lines()
                .filter_map(|line| words(line).into_iter().next())
                .collect(),
            tun: (
                tun.exists(),
                std::fs::OpenOptions::new().read(true).write(true).open(&tun).is_ok(),
            ),
            is_root: crate::privileges::is_root(&status),
            capabilities: field(&status, "CapEff")
                .and_then(|word| u64::from_str_radix(word, 16).ok()),
            limits: (limit(&limits, "Max locked memory"), limit(&limits, "Max open files")),
            memory: (kb("MemTotal"), kb("MemAvailable")),
            huge_pages: (
                kb("Hugepagesize"),
                kb("HugePages_Total"),
                kb("HugePages_Free"),
                kb("HugePages_Rsvd"),
            ),
            transparent: transparent("enabled"),
            transparent_shared: transparent("shmem_enabled"),
            namespaces: root.path("/proc/self/ns/net").symlink_metadata().is_ok(),
            nodes: root.nodes(),
        }
    }

    /// Whether the CPU has all these flags.
    #[must_use]
    pub fn has(&self, flags: &[&str]) -> bool {
        flags.iter().all(|flag| self.flags.iter().any(|one| one == flag))
    }

    /// Whether this process has the capability with this number.
    #[must_use]
    pub fn has_capability(&self, bit: u8) -> bool {
        self.capabilities.is_none_or(|held| held & (1 << bit) != 0)
    }
}
