//! Resources of the router: memory, descriptors, files, devices, buffers. None of them may leak.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use stoa_lab::{Result, Router, Topology};

/// The processes of a router.
pub const PROCESSES: [&str; 3] = ["supervisor", "forwarder", "controller"];

/// Resources of one process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The process id, 0 if it does not run.
    pub pid: u64,
    /// Resident memory, kB.
    pub memory: u64,
    /// What the open descriptors are, sorted: files, and kinds of sockets and of anonymous files.
    pub descriptors: Vec<String>,
}

/// Resources of a router that can leak.
#[derive(Debug)]
pub struct Resources {
    /// In the order of [`PROCESSES`].
    pub processes: [Process; 3],
    /// Packet buffers that are not free.
    pub buffers: i64,
    /// Files in the router's folder.
    pub files: BTreeSet<String>,
    /// Devices in the router's namespace.
    pub devices: usize,
    /// Named namespaces that this process created.
    pub namespaces: usize,
}

/// The process id of the forwarder or the controller, 0 if it does not run.
pub fn pid(status: &Value, half: &str) -> u64 {
    status[format!("{half}_pid")].as_u64().unwrap_or(0)
}

fn process(pid: u64) -> Process {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    Process { pid, memory: memory.unwrap_or(0), descriptors: descriptors(pid) }
}

fn descriptors(pid: u64) -> Vec<String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets: Vec<String> = open
        .map(|entry| {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            let target = target.to_string_lossy().into_owned();
            // "socket:[12345]": the number says nothing.
            target.split_once(":[").map_or(target.clone(), |(kind, _)| kind.to_owned())
        })
        .collect();
    targets.sort();
    targets
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

impl Resources {
    /// The resources in use now.
    ///
    /// # Errors
    /// When the router does not answer.
    pub fn of(router: &Router, topology: &Topology) -> Result<Self> {
        let status = router.status()?;
        let accounting = router.show("conservation")?;
        let of = |name: &str| accounting[name].as_i64().unwrap_or(0);
        let ours = format!("stoa-{}-", std::process::id());
        Ok(Self {
            processes: [
                process(router.pid().into()),
                process(pid(&status, "forwarder")),
                process(pid(&status, "controller")),
            ],
            buffers: of("buffers") - of("buffers_free"),
            files: names(router.scratch().path()),
            devices: topology.router().ip(&["-o", "link"])?.lines().count(),
            namespaces: names(Path::new("/run/netns"))
                .iter()
                .filter(|name| name.starts_with(&ours))
                .count(),
        })
    }

    /// Resources that grew since `before`; memory may grow by `memory` kB.
    pub fn grown_since(&self, before: &Self, memory: u64) -> Vec<String> {
        let mut grown = Vec::new();
        for ((name, now), then) in PROCESSES.iter().zip(&self.processes).zip(&before.processes) {
            let counts = (now.descriptors.len(), then.descriptors.len());
            if counts.0 > counts.1 {
                let (now, then) = (&now.descriptors, &then.descriptors);
                grown.push(format!(
                    "the {name} has {} descriptors, at first {}: {now:?}, at first {then:?}",
                    counts.0, counts.1
                ));
            }
            if now.memory > then.memory + memory {
                let (now, then) = (now.memory, then.memory);
                grown.push(format!("the {name} uses {now} kB, at first {then}"));
            }
        }
        if self.buffers > before.buffers {
            let (now, then) = (self.buffers, before.buffers);
            grown.push(format!("{now} buffers are in use, at first {then}"));
        }
        for (what, now, then) in [
            ("devices", self.devices, before.devices),
            ("namespaces", self.namespaces, before.namespaces),
        ] {
            if now != then {
                grown.push(format!("{now} {what}, at first {then}"));
            }
        }
        let new: Vec<_> = self.files.difference(&before.files).collect();
        if !new.is_empty() {
            grown.push(format!("files: {new:?}"));
        }
        grown
    }
}
