//! The supervisor with shell scripts as children: a child that exits is restarted, and no process is left behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stoa_controller::supervise::{Error, Options, RESTART_DELAY_MAX, run_until};
use tokio::sync::oneshot;

const DEADLINE: Duration = Duration::from_secs(30);

/// Runs until SIGTERM.
const RUN: &str = "trap 'exit 0' TERM\nwhile :; do sleep 0.02; done";

struct Scenario {
    folder: tempfile::TempDir,
}

impl Scenario {
    /// Children that run these shell scripts.
    fn new(forwarder: &str, controller: &str) -> Scenario {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("forwarder"), forwarder).unwrap();
        std::fs::write(folder.path().join("controller"), controller).unwrap();
        std::fs::write(folder.path().join("stoa.json"), "{}").unwrap();
        Scenario { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self) -> Options {
        Options {
            program: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/child"),
            config: self.path("stoa.json"),
            state: self.path("stoa.state"),
            pcap_folder: self.path("pcap"),
            memif_folder: self.path("memif"),
            socket: self.path("stoa.sock"),
            restart_delay_max: RESTART_DELAY_MAX,
        }
    }

    /// The process ids of all starts of a child.
    fn starts(&self, child: &str) -> Vec<i32> {
        let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let words = log.lines().filter_map(|line| line.split_once(' '));
        words.filter(|(name, _)| *name == child).filter_map(|(_, pid)| pid.parse().ok()).collect()
    }

    async fn wait_for_starts(&self, child: &str, number: usize) -> Vec<i32> {
        let wait = async {
            while self.starts(child).len() < number {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "the {child} was only started as {:?}", self.starts(child));
        self.starts(child)
    }
}

fn is_running(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_killed_child_is_restarted_and_the_other_stays() {
    let scenario = Scenario::new(RUN, RUN);
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let drive = async {
        let first = scenario.wait_for_starts("forwarder", 1).await[0];
        scenario.wait_for_starts("controller", 1).await;
        match run_until(scenario.options(), async {}).await {
            Err(Error::Runs { pid, .. }) => assert_eq!(pid, std::process::id().to_string()),
            other => panic!("a second Stoa on the same socket: {other:?}"),
        }
        kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
        scenario.wait_for_starts("forwarder", 2).await;
        assert_eq!(scenario.starts("controller").len(), 1);
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(run_until(scenario.options(), stopped), drive);
    ended.unwrap();
    for pid in [scenario.starts("forwarder"), scenario.starts("controller")].concat() {
        assert!(!is_running(pid), "process {pid} is left behind");
    }
    assert!(!scenario.path("stoa.sock.lock").exists());
}

#[tokio::test]
async fn a_refused_start_is_not_repeated() {
    let scenario = Scenario::new(RUN, "exit 78");
    let ended = tokio::time::timeout(DEADLINE, run_until(scenario.options(), pending())).await;
    assert!(matches!(ended, Ok(Err(Error::RefusedByChild))), "{ended:?}");
    assert_eq!(scenario.starts("controller").len(), 1);
    // It may have been stopped before it wrote its process id.
    assert!(scenario.starts("forwarder").into_iter().all(|pid| !is_running(pid)));
}

#[tokio::test]
async fn a_child_that_keeps_exiting_ends_the_start() {
    let scenario = Scenario::new("exit 1", RUN);
    let ended = tokio::time::timeout(DEADLINE, run_until(scenario.options(), pending())).await;
    assert!(matches!(ended, Ok(Err(Error::KeepsExiting("forwarder")))), "{ended:?}");
    assert_eq!(scenario.starts("forwarder").len(), 5);
}

#[tokio::test]
async fn a_wrong_configuration_starts_nothing() {
    let scenario = Scenario::new(RUN, RUN);
    std::fs::write(scenario.path("stoa.json"), "{").unwrap();
    let ended = run_until(scenario.options(), pending()).await;
    assert!(matches!(ended, Err(Error::Refused(_))), "{ended:?}");
    assert!(!scenario.path("log").exists());
}

fn pending() -> impl Future<Output = ()> {
    std::future::pending()
}
