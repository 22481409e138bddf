//! `stoa upgrade`: restarts the processes of the router that run an older program than the installed one.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use stoa_api::v1::{StatusReply, StatusRequest};

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
started it. Without systemd, restart `stoa run` yourself: an older one starts the installed program
with its own arguments. While the forwarder restarts, nothing is forwarded. Does nothing if all
processes run the installed program.")]
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
    let units = units_of(&to_restart(&status, &outdated));
    if units.is_empty() {
        return Err(without_unit(status.supervisor_pid));
    }
    let restarted = Command::new("systemctl").arg("restart").args(&units).status();
    let restarted = restarted.map_err(|error| Failure::context("systemctl", error))?;
    if !restarted.success() {
        let units = units.join(" ");
        return Err(Failure::Message(format!(
            "systemctl restart {units} failed: run this command as root, and see journalctl -u {}",
            units.split(' ').next().unwrap_or_default()
        )));
    }
    let status = wait(&arguments.socket)?;
    show::print(&format!("Restarted: Stoa {} runs and has its configuration.", status.version))?;
    Ok(ExitCode::SUCCESS)
}

async fn status(socket: &SocketArgument) -> Result<StatusReply, Failure> {
    let mut client = socket.connect().await?;
    Ok(client.status(StatusRequest {}).await?.into_inner())
}

/// The processes that are restarted: those that are outdated, and the supervisor, which has started them.
fn to_restart(status: &StatusReply, outdated: &[&str]) -> Vec<u64> {
    let all = [("controller", status.controller_pid), ("forwarder", status.forwarder_pid)];
    let outdated = all.into_iter().filter(|(name, _)| outdated.contains(name));
    outdated.map(|(_, pid)| pid).chain([status.supervisor_pid]).filter(|pid| *pid != 0).collect()
}

/// Why nothing is restarted that systemd has not started: `stoa run` would start the installed program with the
/// arguments of its own version, and ports may be refused without the new ones. `supervisor`: its process, if any.
fn without_unit(supervisor: u64) -> Failure {
    let how = match supervisor {
        0 => "neither `stoa run` nor a unit of systemd has started the router: stop its processes and start them again"
            .to_owned(),
        pid => format!(
            "no unit of systemd has started the router: stop `stoa run` (process {pid}) and start it again"
        ),
    };
    Failure::Message(format!("nothing was restarted: {how}"))
}

/// The units of systemd that have started these processes.
fn units_of(pids: &[u64]) -> Vec<&'static str> {
    let is_ours = |unit: &&'static str| {
        let mut command = Command::new("systemctl");
        let shown = command.args(["show", "-p", "MainPID", "--value", unit]).output();
        let Ok(shown) = shown else { return false };
        let pid = String::from_utf8_lossy(&shown.stdout).trim().parse::<u64>();
        pid.is_ok_and(|pid| pids.contains(&pid))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_outdated_is_restarted() {
        let two = StatusReply { controller_pid: 7, forwarder_pid: 8, ..StatusReply::default() };
        assert_eq!(to_restart(&two, &["controller"]), [7]);
        assert_eq!(to_restart(&two, &["forwarder"]), [8]);
        assert_eq!(to_restart(&two, &["controller", "forwarder"]), [7, 8]);
        let one = StatusReply { supervisor_pid: 6, ..two };
        assert_eq!(to_restart(&one, &["controller"]), [7, 6]);
    }

    #[test]
    fn without_a_unit_the_operator_restarts_the_router() {
        for (supervisor, expected) in [
            (7, "stop `stoa run` (process 7) and start it again"),
            (0, "stop its processes and start them again"),
        ] {
            let Failure::Message(text) = without_unit(supervisor) else { panic!("no message") };
            assert!(
                text.starts_with("nothing was restarted") && text.ends_with(expected),
                "{text}"
            );
        }
    }
}
