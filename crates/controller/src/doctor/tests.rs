//! Machines made of files: a good one, poor ones, and one without files.

use super::*;

const GOOD: &[(&str, &str)] = &[
    (
        "proc/cpuinfo",
        "model name\t: Fast CPU\nflags\t\t: avx2 avx512f avx512bw avx512dq avx512vl vaes constant_tsc nonstop_tsc\n",
    ),
    ("proc/self/status", "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-7\n"),
    (
        "proc/self/limits",
        "Max locked memory         8388608              8388608              bytes\n\
         Max open files            20000                20000                files\n",
    ),
    (
        "proc/meminfo",
        "MemTotal:       24684544 kB\nMemAvailable:   23000000 kB\nHugePages_Total:      64\n\
         HugePages_Free:       64\nHugePages_Rsvd:        0\nHugepagesize:       2048 kB\n",
    ),
    ("proc/net/protocols", "protocol  size sockets\nPACKET    1\nXDP       1\nUDP       2\n"),
    ("proc/sys/kernel/osrelease", "6.1.0-44-amd64\n"),
    ("proc/self/ns/net", ""),
    ("dev/net/tun", ""),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    (
        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force\n",
    ),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/node/node0/cpulist", "0-7\n"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "64\n"),
    ("sys/devices/system/cpu/isolated", "1-7\n"),
    ("sys/devices/system/cpu/nohz_full", "1-7\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
];

fn machine_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

#[test]
fn a_good_machine_has_nothing_to_fix() {
    let root = machine_of(GOOD);
    for check in examine(root.path(), "avx512", None) {
        assert_eq!((check.state, check.fix.as_str()), (State::Ok, ""), "{check:?}");
    }
}

#[test]
fn each_gap_has_its_cost_and_fix() {
    for (file, content, name, state) in [
        ("proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-7\n", "privileges", State::Missing),
        (
            "proc/self/status",
            "CapEff:\t1ffffffffff\nCpus_allowed_list:\t3\n",
            "cores",
            State::Better,
        ),
        // Everything but CAP_SYS_NICE.
        (
            "proc/self/status",
            "CapEff:\t000001ffff7fffff\nCpus_allowed_list:\t0-7\n",
            "priority",
            State::Better,
        ),
        // Everything but CAP_BPF.
        (
            "proc/self/status",
            "CapEff:\t0000017fffffffff\nCpus_allowed_list:\t0-7\n",
            "af-xdp",
            State::Better,
        ),
        ("proc/net/protocols", "XDP 1\n", "af-packet", State::Missing),
        ("proc/net/protocols", "PACKET 1\n", "af-xdp", State::Better),
        ("proc/meminfo", "MemTotal: 900000 kB\nMemAvailable: 9000 kB\n", "memory", State::Missing),
        (
            "proc/meminfo",
            "MemTotal: 900000 kB\nHugepagesize: 2048 kB\n",
            "huge pages",
            State::Better,
        ),
        ("sys/fs/cgroup/cpu.max", "50000 100000\n", "cores", State::Better),
        ("sys/devices/system/cpu/isolated", "\n", "isolation", State::Better),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave\n",
            "frequency",
            State::Better,
        ),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n",
            "transparent huge pages",
            State::Better,
        ),
        (
            "sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size advise [never] deny force\n",
            "huge pages of flows",
            State::Better,
        ),
        ("proc/self/limits", "Max open files 64 64 files\n", "open files", State::Better),
        ("proc/sys/kernel/osrelease", "5.10.0\n", "locked memory", State::Better),
    ] {
        let mut files = GOOD.to_vec();
        files.push((file, content));
        let root = machine_of(&files);
        let checks = examine(root.path(), "avx512", None);
        let check = checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.state, state, "{check:?}");
        assert!(!check.costs.is_empty() && !check.fix.is_empty(), "{check:?}");
    }
}

/// Root in a container gets the option of the container, anybody else the way to root.
#[test]
fn a_missing_capability_has_the_fix_of_its_user() {
    let fixes = |user: &str| {
        // Everything but CAP_SYS_NICE, CAP_NET_RAW and CAP_BPF.
        let status = format!("Uid:\t{user}\nCapEff:\t0000017fff7fdfff\nCpus_allowed_list:\t0-7\n");
        let mut files = GOOD.to_vec();
        files.push(("proc/self/status", &status));
        let root = machine_of(&files);
        let checks = examine(root.path(), "avx512", None);
        ["privileges", "af-xdp", "priority"].map(|name| {
            checks.iter().find(|check| check.name == name).map(|check| check.fix.clone()).unwrap()
        })
    };
    let options = ["NET_RAW,", "NET_RAW --cap-add BPF,", "SYS_NICE,"];
    for (fix, option) in fixes("0\t0\t0\t0").iter().zip(options) {
        assert!(fix.starts_with(&format!("start the container with --cap-add {option}")), "{fix}");
    }
    assert!(fixes("1000\t1000\t1000\t1000").iter().all(|fix| fix.starts_with("run as root")));
}

#[test]
fn numa_nodes_are_read_from_their_folders() {
    let mut files = GOOD.to_vec();
    files.push(("sys/devices/system/node/node0/cpulist", "0-3\n"));
    files.push(("sys/devices/system/node/node10/cpulist", "4-7\n"));
    files.push(("sys/devices/system/node/node2/cpulist", "\n"));
    files.push(("sys/devices/system/node/online", "0,2,10\n"));
    let root = machine_of(&files);
    let node = |number, cpus: &str, huge_pages| Node { number, cpus: cpus.to_owned(), huge_pages };
    let nodes = [node(0, "0-3", 64), node(2, "", 0), node(10, "4-7", 0)];
    assert_eq!(Machine::read(root.path()).nodes, nodes);
    let checks = examine(root.path(), "avx512", None);
    let check = checks.iter().find(|check| check.name == "huge pages by node").unwrap();
    assert_eq!(
        (check.state, check.found.as_str()),
        (State::Better, "node 0: 64; node 10: 0 of 2 MiB")
    );
}

#[test]
fn missing_cpu_flags_are_named() {
    let mut files = GOOD.to_vec();
    files.push(("proc/cpuinfo", "model name\t: CPU\nflags\t\t: avx2 avx512f constant_tsc\n"));
    let root = machine_of(&files);
    for kernel in ["avx2", "scalar"] {
        let checks = examine(root.path(), kernel, None);
        let check = checks.iter().find(|check| check.name == "vectors").unwrap();
        assert_eq!(check.state, State::Better);
        let found = format!("CPU, kernel {kernel}, without avx512bw avx512dq avx512vl");
        assert_eq!(check.found, found);
        assert!(check.costs.contains("with AV"), "{check:?}");
    }
}

#[test]
fn a_machine_without_files_is_checked() {
    let root = machine_of(&[]);
    let checks = examine(root.path(), "scalar", None);
    assert!(checks.iter().any(|check| check.state == State::Missing));
    assert!(checks.iter().all(|check| !check.found.is_empty()), "{checks:?}");
}

#[test]
fn lists_of_cpus_are_counted() {
    for (list, cpus) in
        [("", 0), ("0", 1), ("0-3,8", 5), ("3-1", 0), ("x", 0), ("0-99999999999", 0)]
    {
        assert_eq!(machine::count(list), cpus, "{list}");
    }
}
