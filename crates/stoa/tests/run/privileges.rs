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

/// However it was started: root in a shell has all capabilities.
#[test]
fn both_halves_give_up_privileges() {
    let router = Router::start(&config("10.2.0.1", 1));
    let status = router.wait("a status", |_| true);
    // CAP_SETGID, _SETUID, _SYS_MODULE, _SYS_RAWIO, _SYS_PTRACE, _SYS_BOOT and _SYS_TIME.
    let given_up = [6, 7, 16, 17, 19, 22, 25].into_iter().fold(0, |all, bit| all | 1_u64 << bit);
    let (sys_nice, sys_admin) = (1 << 23, 1 << 21);
    for process in ["controller_pid", "forwarder_pid"] {
        let threads = threads(&status[process]);
        assert!(threads.len() > 1, "{process}");
        for (name, fields) in threads {
            let set = |name: &str| u64::from_str_radix(&fields[name], 16).unwrap();
            let held = set("CapPrm") | set("CapEff") | set("CapInh") | set("CapAmb");
            assert_eq!(held & given_up, 0, "{process} {name}: {held:x}");
            match name.as_str() {
                "worker-0" => assert_eq!(held & !sys_nice, 0, "{process} {name}: {held:x}"),
                "contract" => assert_eq!(held, 0, "{process} {name}: {held:x}"),
                "netns" => {}
                _ if process == "forwarder_pid" => assert_eq!(held & sys_admin, 0, "{name}"),
                _ => {}
            }
            let is_root = nix::unistd::geteuid().is_root();
            assert!(!is_root || set("CapBnd") & given_up == 0, "{process} {name}");
            // A filter (2) and no new privileges in every thread.
            assert_eq!((&*fields["NoNewPrivs"], &*fields["Seccomp"]), ("1", "2"), "{name}");
        }
    }
    router.end();
}
