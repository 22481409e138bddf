//! What the processes of a running router give up.

use super::*;

/// The threads of a process: name, and the fields of their status.
fn threads(pid: &Value) -> Vec<(String, std::collections::BTreeMap<String, String>)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap();
        let fields = status.lines().filter_map(|line| line.split_once(":\t"));
        let fields: std::collections::BTreeMap<_, _> =
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        (fields["Name"].clone(), fields)
    };
    tasks.map(|task| of_task(task.unwrap())).collect()
}

/// The only process whose parent is `pid`.
fn child(pid: &Value) -> Value {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u64>().ok();
    let is_child = |process: &u64| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        status.is_ok_and(|status| status.contains(&format!("\nPPid:\t{pid}\n")))
    };
    let children: Vec<u64> = processes.filter_map(number).filter(is_child).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].into()
}

/// Capabilities in a set of a thread's status.
fn set(fields: &std::collections::BTreeMap<String, String>, name: &str) -> u64 {
    u64::from_str_radix(&fields[name], 16).unwrap()
}

const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_NICE: u64 = 1 << 23;
const BPF: u64 = 1 << 39;

/// However it was started: root in a shell has all capabilities.
#[test]
fn both_halves_give_up_privileges() {
    let router = Router::start(&config("10.2.0.1", 1));
    let status = router.wait("a status", |_| true);
    // CAP_SETGID, _SETUID, _SYS_MODULE, _SYS_RAWIO, _SYS_PTRACE, _SYS_BOOT and _SYS_TIME.
    let given_up = [6, 7, 16, 17, 19, 22, 25].into_iter().fold(0, |all, bit| all | 1_u64 << bit);
    let is_root = nix::unistd::geteuid().is_root();
    for process in ["controller_pid", "forwarder_pid"] {
        let threads = threads(&status[process]);
        assert!(threads.len() > 1, "{process}");
        // No thread of the forwarder enters other namespaces: its memory is that of all others.
        let given_up = if process == "forwarder_pid" { given_up | SYS_ADMIN } else { given_up };
        for (name, fields) in threads {
            let held = ["CapPrm", "CapEff", "CapInh", "CapAmb"].map(|name| set(&fields, name));
            let held = held.into_iter().fold(0, |all, one| all | one);
            assert_eq!(held & given_up, 0, "{process} {name}: {held:x}");
            match name.as_str() {
                "worker-0" => assert_eq!(held & !SYS_NICE, 0, "{process} {name}: {held:x}"),
                "contract" => assert_eq!(held, 0, "{process} {name}: {held:x}"),
                _ => {}
            }
            assert!(!is_root || set(&fields, "CapBnd") & given_up == 0, "{process} {name}");
            // A filter (2) and no new privileges in every thread.
            assert_eq!((&*fields["NoNewPrivs"], &*fields["Seccomp"]), ("1", "2"), "{name}");
        }
    }
    router.end();
}

/// It has what it takes to open devices in other namespaces, and nothing else.
#[test]
fn the_device_opener_has_only_what_it_needs() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only a forwarder of root has one");
        return;
    }
    let router = Router::start(&config("10.2.0.1", 1));
    let opener = child(&router.wait("a status", |_| true)["forwarder_pid"]);
    let threads = threads(&opener);
    assert_eq!(threads.len(), 1);
    let fields = &threads[0].1;
    for name in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(set(fields, name), SYS_ADMIN | NET_ADMIN | NET_RAW | BPF, "{name}");
    }
    assert_eq!((set(fields, "CapInh"), set(fields, "CapAmb")), (0, 0));
    assert_eq!((&*fields["NoNewPrivs"], &*fields["Seccomp"]), ("1", "2"));
    // Its socket twice, nothing, the log, and two folders: settings, and what the kernel says about itself.
    let open = std::fs::read_dir(format!("/proc/{opener}/fd")).unwrap().flatten();
    let mut open: Vec<String> = open
        .map(|entry| std::fs::read_link(entry.path()).unwrap().to_string_lossy().into_owned())
        .map(|target| target.split_once(":[").map_or(target.clone(), |it| it.0.to_owned()))
        .collect();
    open.sort();
    let log = router.path("log").display().to_string();
    let itself = format!("/proc/{opener}");
    let mut expected = ["/dev/null", "/proc/sys/net", "socket", "socket", &log, &itself];
    expected.sort_unstable();
    assert_eq!(open, expected);
    let environment = std::fs::read(format!("/proc/{opener}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("SUPERVISOR"));
    router.end();
    let gone = || !std::path::Path::new(&format!("/proc/{opener}")).exists();
    assert!(gone(), "the forwarder waits for its end");
}

/// A signal to all processes of the unit does not end it before the forwarder; the end of the forwarder does.
#[test]
fn the_device_opener_ends_with_its_forwarder() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only a forwarder of root has one");
        return;
    }
    let router = Router::start(&config("10.2.0.1", 1));
    let first = router.wait("a status", |_| true)["forwarder_pid"].clone();
    let opener = child(&first);
    for name in ["-TERM", "-INT", "-HUP"] {
        router.signal(opener.as_u64().unwrap(), name);
    }
    assert_eq!(child(&first), opener);
    router.signal(first.as_u64().unwrap(), "-KILL");
    let begun = Instant::now();
    // A first process of the machine that does not wait for orphans leaves zombies.
    let runs = || {
        let status = std::fs::read_to_string(format!("/proc/{opener}/status"));
        status.is_ok_and(|status| !status.contains("\nState:\tZ"))
    };
    while runs() {
        assert!(begun.elapsed() < DEADLINE, "it runs without its forwarder");
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = router.wait("a new forwarder", |status| {
        status["in_sync"] == true && status["forwarder_pid"] != first
    });
    assert_ne!(child(&status["forwarder_pid"]), opener);
    router.end();
}
