//! `stoa upgrade`: restarts the processes of the router that run an older program than the installed one.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use stoa_api::v1::{StatusReply, StatusRequest};
use stoa_controller::supervise;

use crate::failure::{Failure, Outcome};
use crate::operator::{SocketArgument, block_on};
use crate::show;

/// Longest time until the restarted router has its configuration again.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval of questions for its status.
const INTERVAL: Duration = Duration::from_millis(100);
/// The units of the package.
const UNITS: [&str; 3] = ["stoa.service", "stoa-forwarder.service", "stoa-controller.service"];

/// Restart the processes that still run the program from before an upgrade
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa status                                          Is a restart needed?
  sudo stoa upgrade                                    Restart now
  sudo systemd-run --on-calendar=03:00 stoa upgrade    Restart at night

A new package does not touch the running router. This command restarts it: by systemd if systemd
started it, else process by process below `stoa run`, which itself stays. While the forwarder
restarts, nothing is forwarded. Does nothing if all processes run the installed program.")]
pub struct Arguments {
    #[command(flatten)]
    socket: SocketArgument,
}

/// Restarts what is outdated, and waits until the router has its configuration again.
pub fn execute(arguments: Arguments) -> Outcome {
    let status = block_on(status(&arguments.socket))?;
    let outdated = show::status::outdated(&status);
    if outdated.is_empty() {
        show::print("All processes run the installed program: nothing to restart.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let units = units_of(&status);
    if units.is_empty() {
        let pids = [("controller", status.controller_pid), ("forwarder", status.forwarder_pid)];
        let pids = pids.into_iter().filter(|(name, _)| outdated.contains(name));
        supervise::restart_children(status.supervisor_pid, pids.map(|(_, pid)| pid))
            .map_err(|error| Failure::context("cannot restart the router", error))?;
    } else {
        let restarted = Command::new("systemctl").arg("restart").args(&units).status();
        let restarted = restarted.map_err(|error| Failure::context("systemctl", error))?;
        if !restarted.success() {
            let units = units.join(" ");
            return Err(Failure::Message(format!(
                "systemctl restart {units} failed: run this command as root, and see journalctl -u {}",
                units.split(' ').next().unwrap_or_default()
            )));
        }
    }
    let status = wait(&arguments.socket)?;
    show::print(&format!("Restarted: Stoa {} runs and has its configuration.", status.version))?;
    Ok(ExitCode::SUCCESS)
}

async fn status(socket: &SocketArgument) -> Result<StatusReply, Failure> {
    let mut client = socket.connect().await?;
    Ok(client.status(StatusRequest {}).await?.into_inner())
}

/// The units of systemd that have started processes of this router.
fn units_of(status: &StatusReply) -> Vec<&'static str> {
    let pids = [status.supervisor_pid, status.controller_pid, status.forwarder_pid];
    let is_ours = |unit: &&'static str| {
        let mut command = Command::new("systemctl");
        let shown = command.args(["show", "-p", "MainPID", "--value", unit]).output();
        let Ok(shown) = shown else { return false };
        let pid = String::from_utf8_lossy(&shown.stdout).trim().parse::<u64>();
        pid.is_ok_and(|pid| pid != 0 && pids.contains(&pid))
    };
    UNITS.into_iter().filter(is_ours).collect()
}

/// Waits until no process is outdated and the configuration is in force.
fn wait(socket: &SocketArgument) -> Result<StatusReply, Failure> {
    let begun = Instant::now();
    loop {
        std::thread::sleep(INTERVAL);
        match block_on(status(socket)) {
            Ok(status) if status.in_sync && show::status::outdated(&status).is_empty() => {
                return Ok(status);
            }
            Err(failure) if begun.elapsed() > TIMEOUT => return Err(failure),
            Ok(_) if begun.elapsed() > TIMEOUT => {
                let text =
                    "the router has not come back in two minutes: see its log and `stoa status`";
                return Err(Failure::Message(text.to_owned()));
            }
            _ => {}
        }
    }
}
