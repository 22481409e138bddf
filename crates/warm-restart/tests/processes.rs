//! Real processes that are killed while they write, under a small supervisor and under a made-up systemd.

use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stoa_warm_restart::probe::{Counting, Journal};
use stoa_warm_restart::{CHILD_ENVIRONMENT, DescriptorStore, Taken, probe, regions};

const DEADLINE: Duration = Duration::from_secs(30);
/// The environment variable that makes this program a process of a test: "probe" or "supervisor".
const ROLE: &str = "STOA_TEST_ROLE";

/// This program, as one of the processes below.
fn process(role: &str, journal: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "play_a_role", "--nocapture"]);
    command.env(ROLE, role).env(probe::ENVIRONMENT, journal).stdout(Stdio::null());
    command
}

/// Not a test: what the other processes do.
#[test]
fn play_a_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("probe") => {
            // A failed test leaves no process behind.
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).unwrap();
            let journal = Journal::of("probe").unwrap().unwrap();
            let opened = regions().open(probe::ENTRIES).unwrap();
            let _counting = Counting::start(opened, journal).unwrap();
            loop {
                std::thread::park();
            }
        }
        Ok("supervisor") => {
            let [mut store] = DescriptorStore::inherited(["forwarder"]);
            let (of_child, ours) = store.connect().unwrap();
            let journal = std::env::var_os(probe::ENVIRONMENT).unwrap();
            let mut probe = process("probe", Path::new(&journal));
            let mut probe = probe.env(CHILD_ENVIRONMENT, "stdin").stdin(of_child).spawn().unwrap();
            while store.receive(&ours) != Taken::Last {
                std::thread::sleep(Duration::from_millis(1));
            }
            probe.wait().unwrap();
        }
        _ => {}
    }
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A journal, and the processes that write it.
struct Lives {
    folder: tempfile::TempDir,
    number: usize,
    /// For moments without a pattern.
    random: u64,
}

impl Lives {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), number: 0, random: 0x2545_F491_4F6C_DD1D }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.folder.path().join("journal")
    }

    /// The journal of all probes.
    fn journal_of_probe(&self) -> std::path::PathBuf {
        self.journal().with_extension("probe")
    }

    fn read(&self) -> String {
        let journal = std::fs::read(self.journal_of_probe()).unwrap_or_default();
        String::from_utf8_lossy(&journal).into_owned()
    }

    /// Starts the next process, waits until it counts, and for a random moment up to 5 ms.
    fn start(&mut self, start: impl FnOnce(&Path) -> Child) -> Child {
        let journal = self.journal_of_probe();
        let written = std::fs::metadata(&journal).map_or(0, |file| file.len());
        let process = start(&self.journal());
        self.number += 1;
        wait_until("the next process is ready", || {
            let mut new = String::new();
            let read = std::fs::File::open(&journal).and_then(|mut file| {
                file.seek(SeekFrom::Start(written))?;
                file.read_to_string(&mut new)
            });
            let counts = |(_, after): (&str, &str)| after.contains("wrote");
            read.is_ok() && new.split_once("ready .").is_some_and(counts)
        });
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        std::thread::sleep(Duration::from_micros(self.random % 5000));
        process
    }

    /// The process id of the probe that runs now.
    fn probe(&self) -> String {
        let journal = self.read();
        let last = journal.lines().rfind(|line| line.starts_with("start ")).unwrap();
        last.split(' ').nth(1).unwrap().to_owned()
    }

    fn end(self) {
        let summary = probe::verify(&self.read()).unwrap();
        println!("{summary:?}");
        assert_eq!(summary.lives, self.number);
        assert!(summary.entries >= 48 || self.number < 2, "{summary:?}");
    }
}

fn kill(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn sequence_numbers_never_go_back_in_a_hundred_kills() {
    let mut lives = Lives::new();
    let mut store = DescriptorStore::of("probe");
    for _ in 0..100 {
        let (of_child, ours) = store.connect().unwrap();
        let running = lives.start(|journal| {
            let mut command = process("probe", journal);
            command.env(CHILD_ENVIRONMENT, "stdin").stdin(of_child).spawn().unwrap()
        });
        kill(running);
        // A process that another test starts at this moment has a copy of it for an instant.
        wait_until("the other end is closed", || store.receive(&ours) == Taken::Last);
    }
    lives.end();
}

/// Passes what a store holds, as systemd does: descriptors from 3 on, their names in the environment.
fn under_systemd(mut command: Command, store: &DescriptorStore, socket: &Path) -> Child {
    let held: Vec<(&str, OwnedFd)> =
        store.held().map(|(name, file)| (name, file.try_clone_to_owned().unwrap())).collect();
    command.env("NOTIFY_SOCKET", socket).env_remove(CHILD_ENVIRONMENT);
    assert!(held.len() <= 1, "there is one region");
    let Some((name, file)) = held.into_iter().next() else {
        return command.stdin(Stdio::null()).spawn().unwrap();
    };
    // The shell gives its process id, which is LISTEN_PID, to the program.
    let script = "LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 0</dev/null";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", name);
    shell.stdin(file).stdout(Stdio::null()).spawn().unwrap()
}

/// Kills processes that systemd started ten times.
fn ten_lives_under_systemd(role: &str) {
    let mut lives = Lives::new();
    let socket = lives.folder.path().join("notify");
    let notify = UnixDatagram::bind(&socket).unwrap();
    let mut store = DescriptorStore::of("systemd");
    for _ in 0..10 {
        let start = |journal: &Path| under_systemd(process(role, journal), &store, &socket);
        let running = lives.start(start);
        let probe = lives.probe();
        // A supervisor that is killed together with its child must have passed on what the child sent.
        wait_until("systemd holds the memory", || {
            store.receive(notify.as_fd());
            store.held().count() == 1
        });
        kill(running);
        if role == "supervisor" {
            // systemd kills what remains of a unit.
            let kill = |signal: &str| Command::new("kill").args([signal, &probe]).status().unwrap();
            kill("-KILL");
            let stat = format!("/proc/{probe}/stat");
            let is_running = || std::fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z "));
            wait_until("the probe has ended", || !is_running());
        }
        assert_eq!(store.receive(notify.as_fd()), Taken::All, "messages of the process");
    }
    lives.end();
}

#[test]
fn systemd_holds_the_memory_of_a_unit() {
    ten_lives_under_systemd("probe");
}

#[test]
fn systemd_holds_what_the_supervisor_holds() {
    ten_lives_under_systemd("supervisor");
}
