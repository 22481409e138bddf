//! The checks.

use super::check::{Check, Router, ok};
use super::machine::{Machine, count};
use super::numa;
use crate::privileges::fix_of_root;

/// CPU flags that the AVX-512 kernels need.
const AVX512: [&str; 4] = ["avx512f", "avx512bw", "avx512dq", "avx512vl"];
const NET_ADMIN: u8 = 12;
const NET_RAW: u8 = 13;
const SYS_ADMIN: u8 = 21;
const SYS_NICE: u8 = 23;
const BPF: u8 = 39;
/// Packet memory unless configured otherwise: 16,384 buffers of 2,240 bytes, kB.
const POOL: u64 = 35 * 1024;
/// Memory of both processes by default, with a margin, kB.
const FOOTPRINT: u64 = 300 * 1024;

/// All checks, the most important first; those of placement last.
pub(super) fn all(machine: &Machine, kernel: &str, router: Option<&Router>) -> Vec<Check> {
    let mut checks = vec![
        capabilities(machine),
        af_packet(machine),
        af_xdp(machine),
        tun(machine),
        namespaces(machine),
        processor(machine, kernel),
        cores(machine),
        isolation(machine),
        priority(machine),
        frequency(machine),
        clock(machine),
        memory(machine),
        huge_pages(machine),
        transparent(machine),
        transparent_shared(machine),
        locked(machine),
        files(machine),
    ];
    checks.extend(numa::all(machine, router));
    checks
}

fn capabilities(machine: &Machine) -> Check {
    let desired = [(NET_ADMIN, "net_admin"), (NET_RAW, "net_raw"), (SYS_ADMIN, "sys_admin")];
    let missing = desired.into_iter().filter(|(bit, _)| !machine.has_capability(*bit));
    let missing: Vec<String> = missing.map(|(_, name)| format!("cap_{name}")).collect();
    if missing.is_empty() {
        return ok("privileges", "net_admin, net_raw, sys_admin");
    }
    let check = ok("privileges", format!("without {}", missing.join(", ")));
    let fix = fix(machine, &missing, "run as root: sudo stoa run --config FILE");
    if missing == ["cap_sys_admin"] {
        return check.better("no ports in other network namespaces", fix);
    }
    check.missing("no ports on Linux devices; memif, pcap and generator work", fix)
}

/// How to get capabilities that are missing; `other`: for other users than root.
fn fix(machine: &Machine, missing: &[impl AsRef<str>], other: &str) -> String {
    if !machine.is_root {
        return other.to_owned();
    }
    let names: Vec<String> = missing.iter().map(|name| name.as_ref().to_uppercase()).collect();
    fix_of_root(names.iter().map(String::as_str))
}

fn af_packet(machine: &Machine) -> Check {
    if machine.protocols.iter().any(|name| name == "PACKET") {
        return ok("af-packet", "in the kernel");
    }
    ok("af-packet", "not in the kernel")
        .missing("no packet-socket ports, which work with every device", "sudo modprobe af_packet")
}

fn af_xdp(machine: &Machine) -> Check {
    if !machine.protocols.iter().any(|name| name == "XDP") {
        return ok("af-xdp", format!("not in kernel {}", machine.kernel)).better(
            "ports use the slower packet socket: about 1,000 cycles per received packet and 2,400 per sent one",
            "use a kernel with CONFIG_XDP_SOCKETS, 5.10 or newer",
        );
    }
    let rights = [(NET_ADMIN, "cap_net_admin"), (NET_RAW, "cap_net_raw"), (BPF, "cap_bpf")];
    let missing: Vec<&str> = rights
        .iter()
        .filter(|(bit, _)| !machine.has_capability(*bit))
        .map(|(_, name)| *name)
        .collect();
    if !missing.is_empty() {
        let found = format!("in kernel {}, but without {}", machine.kernel, missing.join(", "));
        return ok("af-xdp", found).better(
            "af-xdp ports are refused, and auto uses the slower packet socket",
            fix(
                machine,
                &missing,
                "run as root, or: sudo setcap cap_net_admin,cap_net_raw,cap_bpf+ep $(command -v stoa)",
            ),
        );
    }
    let found = format!("in kernel {}, generic for every device, native by driver", machine.kernel);
    ok("af-xdp", found)
}

fn tun(machine: &Machine) -> Check {
    match machine.tun {
        (true, true) => ok("tap", "/dev/net/tun"),
        (true, false) => ok("tap", "/dev/net/tun, not for this user").missing(
            "no tap ports and no host interfaces in Linux",
            match machine.is_root {
                true => "start the container with --device /dev/net/tun",
                false => "run as root: sudo stoa run --config FILE",
            },
        ),
        (false, _) => ok("tap", "no /dev/net/tun").missing(
            "no tap ports and no host interfaces in Linux",
            "sudo modprobe tun, and restart the forwarder; in a container: --device /dev/net/tun",
        ),
    }
}

fn namespaces(machine: &Machine) -> Check {
    if machine.namespaces {
        return ok("namespaces", "network namespaces");
    }
    ok("namespaces", "no network namespaces")
        .missing("no `netns` for ports, no `stoa demo`", "use a kernel with CONFIG_NET_NS")
}

fn processor(machine: &Machine, kernel: &str) -> Check {
    let more = ["avx512vbmi", "vaes", "gfni"].into_iter().filter(|flag| machine.has(&[flag]));
    let found = format!("{}, kernel {kernel}", machine.processor);
    if kernel == "avx512" {
        let more: String = more.map(|flag| format!(", {flag}")).collect();
        return ok("vectors", format!("{found} (F, BW, DQ, VL{more})"));
    }
    let missing: Vec<_> = AVX512.into_iter().filter(|flag| !machine.has(&[flag])).collect();
    let reason =
        if missing.is_empty() { String::new() } else { format!(", without {}", missing.join(" ")) };
    let costs = if kernel == "avx2" {
        "lookups in large tables may take more cycles than with AVX-512"
    } else {
        "a packet takes about twice the cycles that it takes with AVX2 or AVX-512"
    };
    ok("vectors", format!("{found}{reason}"))
        .better(costs, "use a processor with AVX-512: Skylake-SP, Ice Lake, Zen 4 or newer")
}

fn cores(machine: &Machine) -> Check {
    let found = match machine.quota {
        Some(quota) => {
            format!("{} of {}, with a quota of {quota:.1}", machine.allowed, machine.cpus)
        }
        None => format!("{} of {}", machine.allowed, machine.cpus),
    };
    let check = ok("cores", found);
    if machine.quota.is_some_and(|quota| quota < machine.allowed as f64) {
        return check.better(
            "when the quota is used up, packets wait up to 100 ms and are dropped",
            "assign whole CPUs (cpuset) to the container or service, without a quota",
        );
    }
    if machine.allowed < 2 {
        return check.better(
            "workers, control and everything else share one core",
            "assign two or more cores",
        );
    }
    check
}

fn isolation(machine: &Machine) -> Check {
    let (isolated, tickless) = (count(&machine.isolated), count(&machine.tickless));
    let found = match (isolated, tickless) {
        (0, 0) => "no isolated core".to_owned(),
        (_, 0) => format!("isolcpus={}, with timer ticks", machine.isolated),
        (0, _) => format!("nohz_full={}, shared with other programs", machine.tickless),
        _ => format!("isolcpus={} nohz_full={}", machine.isolated, machine.tickless),
    };
    let check = ok("isolation", found);
    if isolated > 0 && tickless > 0 {
        return check;
    }
    let last = machine.cpus.saturating_sub(1);
    let cores = if last > 1 { format!("1-{last}") } else { last.to_string() };
    check.better(
        "other programs interrupt polling workers, sometimes for milliseconds",
        format!("add to the kernel command line: isolcpus={cores} nohz_full={cores}"),
    )
}

fn priority(machine: &Machine) -> Check {
    if machine.has_capability(SYS_NICE) {
        return ok("priority", "workers preempt other programs when they wake up");
    }
    ok("priority", "without cap_sys_nice").better(
        "a worker that wakes up waits for other programs on its CPU, up to milliseconds",
        fix(machine, &["cap_sys_nice"], "run as root"),
    )
}

fn frequency(machine: &Machine) -> Check {
    match machine.governor.as_deref() {
        None => ok("frequency", "unknown, as in most virtual machines"),
        Some("performance") => ok("frequency", "governor performance"),
        Some(other) => ok("frequency", format!("governor {other}")).better(
            "a core runs slowly after an idle period: more delay at low load",
            "sudo cpupower frequency-set -g performance",
        ),
    }
}

fn clock(machine: &Machine) -> Check {
    let is_invariant = machine.has(&["constant_tsc", "nonstop_tsc"]);
    let kind = if is_invariant {
        "an invariant time stamp counter"
    } else {
        "no invariant time stamp counter"
    };
    let check = ok("clock", format!("{kind}, clock source {}", machine.clock));
    if cfg!(target_arch = "x86_64") && !is_invariant {
        return check.better(
            "cycles, rates and timeouts may be wrong when cores change their frequency",
            "use a processor or virtual machine type with constant_tsc and nonstop_tsc",
        );
    }
    if cfg!(target_arch = "x86_64") && machine.clock != "tsc" {
        return check.better(
            "reading the time is a system call: about 200 ns instead of 20 ns",
            "kernel command line: clocksource=tsc tsc=reliable",
        );
    }
    check
}

fn mib(kb: u64) -> String {
    format!("{} MiB", kb / 1024)
}

fn memory(machine: &Machine) -> Check {
    let (all, free) = machine.memory;
    let check = ok("memory", format!("{} free of {}", mib(free), mib(all)));
    if free < FOOTPRINT {
        return check.missing(
            "Stoa needs up to 300 MiB with its default tables and buffers",
            "free some memory, or configure fewer workers/buffers",
        );
    }
    check
}

fn huge_pages(machine: &Machine) -> Check {
    let (size, all, free, reserved) = machine.huge_pages;
    let usable = free.saturating_sub(reserved) * size;
    let found = match (all, reserved) {
        (0, _) => "none reserved".to_owned(),
        (_, 0) => format!("{free} of {all} free, {size} kB each"),
        _ => format!(
            "{free} of {all} free, {reserved} of them reserved by processes, {size} kB each"
        ),
    };
    let check = ok("huge pages", found);
    if size > 0 && usable >= POOL {
        return check;
    }
    let pages = POOL.div_ceil(size.max(1)) + 2;
    check.better(
        "buffers use transparent huge pages: as fast with few routes, more TLB misses with many",
        format!("sudo sysctl vm.nr_hugepages={}", all + pages),
    )
}

fn transparent(machine: &Machine) -> Check {
    match machine.transparent.as_deref() {
        Some(setting @ ("always" | "madvise")) => ok("transparent huge pages", setting),
        other => {
            let found = other.unwrap_or("not in the kernel");
            ok("transparent huge pages", found).better(
                "tables, and buffers without reserved huge pages, use 4 kB pages",
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
            )
        }
    }
}

/// The flows lie in memory that a later process reads.
fn transparent_shared(machine: &Machine) -> Check {
    const NAME: &str = "huge pages of flows";
    match machine.transparent_shared.as_deref() {
        Some(setting @ ("always" | "within_size" | "advise" | "force")) => ok(NAME, setting),
        other => ok(NAME, other.unwrap_or("not in the kernel")).better(
            "flows use 4 kB pages: millions of them take some cycles more for each packet",
            "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
    }
}

fn locked(machine: &Machine) -> Check {
    let found = match machine.limits.0 {
        u64::MAX => "no limit".to_owned(),
        bytes => mib(bytes / 1024),
    };
    let check = ok("locked memory", found);
    // Kernels since 5.11 account AF_XDP and BPF to the control group; older ones to this limit.
    if machine.limits.0 < 64 << 20 && older_than(&machine.kernel, (5, 11)) {
        return check.better(
            "af-xdp ports may be refused: this kernel counts their memory against the limit",
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service",
        );
    }
    check
}

fn older_than(kernel: &str, version: (u32, u32)) -> bool {
    let mut parts = kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < version,
        _ => false,
    }
}

fn files(machine: &Machine) -> Check {
    let found = match machine.limits.1 {
        u64::MAX => "no limit".to_owned(),
        files => files.to_string(),
    };
    let check = ok("open files", found);
    if machine.limits.1 < 1024 {
        return check.better(
            "ports with many queues may run out of file descriptors: about 4 for each queue",
            "ulimit -n 65536, or LimitNOFILE=65536 in the service",
        );
    }
    check
}
