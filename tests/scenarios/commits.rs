//! The controller is killed during commits: the running and startup configuration and the forwarder agree on the old or
//! the new state, and no confirmed commit is lost. `STOA_KILLS` sets the number of kills (40).

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use stoa_lab::{Background, Command, Output, Result, Scratch, stoa_binary, wait_until};

const DEADLINE: Duration = Duration::from_secs(20);

/// Forwarder and controller without a supervisor.
struct Halves {
    scratch: Scratch,
    forwarder: Option<Background>,
    controller: Option<Background>,
}

/// A configuration with the number of the round in a description and in an address.
fn configuration(round: u32) -> Value {
    let address = format!("10.{}.{}.1", round / 250, round % 250);
    json!({ "ietf-interfaces:interfaces": { "interface": [{
        "name": "a", "description": format!("round {round}"), "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": { "null": {} },
        "ietf-ip:ipv4": { "address": [{ "ip": address, "prefix-length": 24 }] },
    }] } })
}

/// The round of a configuration.
fn round(configuration: &Value) -> Option<u32> {
    let interface = &configuration["ietf-interfaces:interfaces"]["interface"][0];
    interface["description"].as_str()?.strip_prefix("round ")?.parse().ok()
}

impl Halves {
    fn start() -> Result<Self> {
        let scratch = Scratch::new()?;
        scratch.write("stoa.json", configuration(0).to_string())?;
        let mut halves = Halves { scratch, forwarder: None, controller: None };
        halves.start_forwarder()?;
        halves.start_controller()?;
        Ok(halves)
    }

    fn file(&self, name: &str) -> String {
        self.scratch.file(name).to_string_lossy().into_owned()
    }

    fn start_forwarder(&mut self) -> Result<()> {
        let socket = self.file("forwarder.sock");
        let half = Command::program(stoa_binary()?).args(["forwarder", "--socket", &socket]);
        self.forwarder = Some(half.spawn()?);
        wait_until("the forwarder listens", DEADLINE, || {
            if Path::new(&socket).exists() { Ok(()) } else { Err("no socket yet".to_owned()) }
        })
    }

    fn start_controller(&mut self) -> Result<()> {
        let [config, socket, forwarder] =
            ["stoa.json", "stoa.sock", "forwarder.sock"].map(|name| self.file(name));
        let half = [
            "controller",
            "--config",
            &config,
            "--socket",
            &socket,
            "--forwarder-socket",
            &forwarder,
        ];
        self.controller = Some(Command::program(stoa_binary()?).args(half).spawn()?);
        wait_until("controller and forwarder are in sync", DEADLINE, || {
            let status = self.stoa(&["status", "--json"]).map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
            if answer["in_sync"] == true { Ok(()) } else { Err(status.stdout + &status.stderr) }
        })
    }

    fn stoa(&self, words: &[&str]) -> Result<Output> {
        Command::program(stoa_binary()?)
            .args(words)
            .env("STOA_SOCKET", &self.file("stoa.sock"))
            .deadline(DEADLINE)
            .run()
    }

    /// The round of a datastore.
    fn configured(&self, store: &[&str]) -> Result<Option<u32>> {
        let mut words = vec!["show", "configuration", "--json"];
        words.extend(store);
        let output = self.stoa(&words)?.ok()?;
        Ok(round(&serde_json::from_str(&output.stdout).expect("JSON")))
    }

    /// The round of the forwarder's state.
    fn forwarded(&self) -> Result<Option<u32>> {
        let shown = self.stoa(&["show", "interfaces", "--json"])?.ok()?.stdout;
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let text = shown["interfaces"][0].to_string();
        let parts = text.split("\"10.").nth(1).and_then(|rest| {
            let mut parts = rest.split('.');
            Some((parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
        });
        Ok(parts.map(|(high, low)| high * 250 + low))
    }
}

fn end(half: Option<Background>) {
    if let Some(half) = half {
        let pid = Pid::from_raw(i32::try_from(half.pid()).expect("a process id"));
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// The next pseudo-random number (xorshift64).
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn a_killed_controller_loses_nothing() -> Result<()> {
    let kills = std::env::var("STOA_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(40);
    let mut seed = u64::from(std::process::id()) | 0x5704_0000;
    println!("seed {seed}");
    let mut halves = Halves::start()?;
    let (mut current, mut done, mut undone) = (0, 0, 0);
    // The range of delays in microseconds follows the machine, so that about half of the commits take effect.
    let mut range = 25_000;
    for number in 1..=kills {
        let body = configuration(number).to_string();
        let file = halves.scratch.write("next.json", body)?.to_string_lossy().into_owned();
        halves.stoa(&["load", &file])?.ok()?;
        let commit = Command::program(stoa_binary()?)
            .args(["commit", "--json"])
            .env("STOA_SOCKET", &halves.file("stoa.sock"))
            .spawn()?;
        std::thread::sleep(Duration::from_micros(next(&mut seed) % range));
        end(halves.controller.take());
        let was_confirmed = commit.finish(DEADLINE)?.2;
        // Every fourth time the forwarder is killed as well: only the startup file remains.
        let is_all = number % 4 == 0;
        if is_all {
            end(halves.forwarder.take());
            let _ = std::fs::remove_file(halves.scratch.file("stoa.sock.running"));
            halves.start_forwarder()?;
        }
        halves.start_controller()?;
        let running = halves.configured(&[])?;
        assert!(
            running == Some(current) || running == Some(number),
            "{running:?}: {current}, {number}"
        );
        assert!(!was_confirmed || running == Some(number), "round {number} was confirmed");
        assert_eq!(halves.forwarded()?, running, "round {number}");
        let startup = std::fs::read_to_string(halves.scratch.file("stoa.json")).expect("there");
        let startup = round(&serde_json::from_str(&startup).expect("whole"));
        assert!(
            startup == Some(current) || startup == Some(number),
            "{startup:?}: {current}, {number}"
        );
        if running == Some(number) {
            done += 1;
            range = (range * 4 / 5).max(5_000);
        } else {
            undone += 1;
            range = (range * 5 / 4).min(2_000_000);
        }
        assert_eq!(startup, running, "round {number}: startup and running configuration are equal");
        current = running.expect("one of them");
    }
    println!("{kills} kills: {done} took effect, {undone} did not");
    let history = halves.stoa(&["show", "history", "--json"])?.ok()?.stdout;
    let history: Value = serde_json::from_str(&history).expect("JSON");
    let entries = history["entries"].as_array().map_or(0, Vec::len);
    assert!(entries > 1, "{history}");
    let left = std::fs::read_dir(halves.scratch.path()).expect("a folder").flatten();
    let left: Vec<_> = left.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    assert!(left.iter().filter(|name| name.ends_with(".new")).count() <= 1, "{left:?}");
    end(halves.controller.take());
    end(halves.forwarder.take());
    Ok(())
}
