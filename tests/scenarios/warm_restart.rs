//! State that survives a process: the test capability of each half counts while that half is killed.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Background, Command, Result, Scratch, stoa_binary, wait_until};
use stoa_warm_restart::probe;

const DEADLINE: Duration = Duration::from_secs(30);

/// A router without ports, and the journals of its test capability.
struct Counting {
    scratch: Scratch,
    process: Background,
    /// The half that is killed: forwarder or controller.
    half: &'static str,
}

impl Counting {
    fn begin(half: &'static str) -> Result<Self> {
        let scratch = Scratch::new()?;
        let config = scratch.write("stoa.json", "{}")?;
        let journal = scratch.file("journal");
        let process = Command::program(stoa_binary()?)
            .args(["run", "--config", &config.to_string_lossy()])
            .args(["--socket", &scratch.file("stoa.sock").to_string_lossy()])
            .args(["--restart-delay-max-ms", "20"])
            .env(probe::ENVIRONMENT, &journal.to_string_lossy())
            .spawn()?;
        Ok(Self { scratch, process, half })
    }

    /// The journal of the half that is killed.
    fn journal(&self) -> PathBuf {
        self.scratch.file(&format!("journal.{}", self.half))
    }

    fn status(&self) -> std::result::Result<Value, String> {
        let socket = self.scratch.file("stoa.sock");
        let command = Command::program(stoa_binary().map_err(|error| error.to_string())?).args([
            "status",
            "--json",
            "--socket",
            &socket.to_string_lossy(),
        ]);
        let output = command.run().and_then(stoa_lab::Output::ok).map_err(|it| it.to_string())?;
        serde_json::from_str(&output.stdout).map_err(|error| error.to_string())
    }

    fn wait_in_sync(&self) -> Result<()> {
        wait_until("the router is in sync", DEADLINE, || {
            let status = self.status()?;
            if status["in_sync"] == true { Ok(()) } else { Err(status.to_string()) }
        })
    }

    /// Waits until a process counts that started when the journal had `before` bytes; returns its id.
    fn wait_for_counting(&self, before: u64) -> Result<String> {
        wait_until("the next process counts", DEADLINE, || {
            let new = read_from(&self.journal(), before);
            let start = new.split_once("\nstart ");
            let counts = start.and_then(|(_, new)| {
                let pid = new.split(' ').next()?;
                new.split_once("ready .")?.1.contains("wrote").then(|| pid.to_owned())
            });
            counts.ok_or_else(|| self.process.log())
        })
    }
}

fn read_from(file: &Path, start: u64) -> String {
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|mut file| {
        file.seek(SeekFrom::Start(start))?;
        file.read_to_string(&mut text)
    });
    read.map(|_| text).unwrap_or_default()
}

/// Kills one half again and again, and checks what each of its processes has found.
fn kill_repeatedly(half: &'static str, kills: usize) -> Result<()> {
    let router = Counting::begin(half)?;
    router.wait_in_sync()?;
    let journal = router.journal();
    let mut before = 0;
    // Moments without a pattern; the seed does not matter.
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..kills {
        let pid = router.wait_for_counting(before)?;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 20_000));
        // Not after the kill: the supervisor may have started the next one by then.
        let written = std::fs::metadata(&journal).map_or(0, |file| file.len());
        Command::program("/bin/kill").args(["-KILL", &pid]).run()?.ok()?;
        before = written;
    }
    router.wait_for_counting(before)?;
    router.wait_in_sync()?;
    let log = router.process.log();
    let (_, _, status) = router.process.stop()?;
    assert!(status.success(), "{log}");
    let summary = probe::verify(&read_from(&journal, 0));
    println!("{half}: {summary:?}");
    let summary = summary.unwrap_or_else(|lost| panic!("{lost}: {log}"));
    assert_eq!(summary.lives, kills + 1);
    // 48 stay and 8 come and go: the last process may have been killed between the removal of one and the next one.
    assert!((55..=56).contains(&summary.entries), "{summary:?}");
    let adopted =
        format!("test-sequences: {} entries of the last process adopted", summary.entries);
    assert!(log.contains(&adopted), "{log}");
    Ok(())
}

#[test]
fn sequence_numbers_never_go_back_when_the_forwarder_is_killed() -> Result<()> {
    kill_repeatedly("forwarder", 50)
}

#[test]
fn sequence_numbers_never_go_back_when_the_controller_is_killed() -> Result<()> {
    kill_repeatedly("controller", 50)
}
