//! The supervisor over halves that are shell scripts: who dies comes back, and
//! nothing is left behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stoa_controller::supervise::{Error, Options, run_until};
use tokio::sync::oneshot;

const DEADLINE: Duration = Duration::from_secs(30);

/// Lives until it is told to end.
const LIVE: &str = "trap 'exit 0' TERM\nwhile :; do sleep 0.02; done";

struct Scenario {
    folder: tempfile::TempDir,
}

impl Scenario {
    /// Halves that do what these lines of shell say.
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
            program: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/halves"),
            config: self.path("stoa.json"),
            state: self.path("stoa.state"),
            socket: self.path("stoa.sock"),
        }
    }

    /// Process ids of a half so far, in the order of its lives.
    fn lives(&self, half: &str) -> Vec<i32> {
        let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let words = log.lines().filter_map(|line| line.split_once(' '));
        words.filter(|(name, _)| *name == half).filter_map(|(_, pid)| pid.parse().ok()).collect()
    }

    async fn wait_for_lives(&self, half: &str, number: usize) -> Vec<i32> {
        let wait = async {
            while self.lives(half).len() < number {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "the {half} had {:?} lives only", self.lives(half));
        self.lives(half)
    }
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_half_that_is_killed_comes_back_and_the_other_stays() {
    let scenario = Scenario::new(LIVE, LIVE);
    let (tell, told) = oneshot::channel::<()>();
    let told = async {
        let _ = told.await;
    };
    let drive = async {
        let first = scenario.wait_for_lives("forwarder", 1).await[0];
        scenario.wait_for_lives("controller", 1).await;
        match run_until(scenario.options(), async {}).await {
            Err(Error::Runs { pid, .. }) => assert_eq!(pid, std::process::id().to_string()),
            other => panic!("a second one on the same socket: {other:?}"),
        }
        kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
        scenario.wait_for_lives("forwarder", 2).await;
        assert_eq!(scenario.lives("controller").len(), 1);
        tell.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(run_until(scenario.options(), told), drive);
    ended.unwrap();
    for pid in [scenario.lives("forwarder"), scenario.lives("controller")].concat() {
        assert!(!is_alive(pid), "process {pid} is left behind");
    }
    assert!(!scenario.path("stoa.sock.lock").exists());
}

#[tokio::test]
async fn a_refused_start_is_not_tried_again() {
    let scenario = Scenario::new(LIVE, "exit 78");
    let ended = tokio::time::timeout(DEADLINE, run_until(scenario.options(), pending())).await;
    assert!(matches!(ended, Ok(Err(Error::Said))), "{ended:?}");
    assert_eq!(scenario.lives("controller").len(), 1);
    // It may have been ended before it could say that it lived.
    assert!(scenario.lives("forwarder").into_iter().all(|pid| !is_alive(pid)));
}

#[tokio::test]
async fn a_half_that_never_comes_up_ends_the_start() {
    let scenario = Scenario::new("exit 1", LIVE);
    let ended = tokio::time::timeout(DEADLINE, run_until(scenario.options(), pending())).await;
    assert!(matches!(ended, Ok(Err(Error::NotUp("forwarder")))), "{ended:?}");
    assert_eq!(scenario.lives("forwarder").len(), 5);
}

#[tokio::test]
async fn a_wrong_configuration_starts_nothing() {
    let scenario = Scenario::new(LIVE, LIVE);
    std::fs::write(scenario.path("stoa.json"), "{").unwrap();
    let ended = run_until(scenario.options(), pending()).await;
    assert!(matches!(ended, Err(Error::Refused(_))), "{ended:?}");
    assert!(!scenario.path("log").exists());
}

fn pending() -> impl Future<Output = ()> {
    std::future::pending()
}
