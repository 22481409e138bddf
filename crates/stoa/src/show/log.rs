//! The newest lines of the log: of the journal, of the file that standard error of `stoa run` goes to, or else of the
//! memory of its processes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use stoa_api::date;
use stoa_api::v1::{LogMessage, ProgramMessage, ShowMessagesRequest, StatusRequest};

use crate::failure::{Failure, to_stderr};
use crate::operator::Client;

/// The end of a file that is read, in bytes.
const TAIL_LIMIT_BYTES: u64 = 4 << 20;

/// Where lines come from, and the lines.
type Lines = (String, Vec<String>);

/// Finds the log of the running router and prints its newest lines: of its file or of the journal. Where neither has
/// them, such as with `stoa run` at a terminal, the processes still have their last messages in memory.
pub async fn show(
    client: &mut Client,
    lines: usize,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let status = client.status(StatusRequest {}).await?.into_inner();
    let pid = if status.supervisor_pid > 0 { status.supervisor_pid } else { status.controller_pid };
    let (source, log) = match read(pid, lines) {
        Ok(found) => found,
        Err(reason) => {
            to_stderr(format_args!(
                "stoa: {reason}. These are the last messages that controller and forwarder keep in memory:"
            ));
            ("memory".to_owned(), in_memory(client, lines).await?)
        }
    };
    match as_json {
        true => writeln!(out, "{}", json!({ "source": source, "lines": log }))?,
        false => log.iter().try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(())
}

/// The last messages of controller and forwarder, oldest first, in the format of the log.
async fn in_memory(client: &mut Client, lines: usize) -> Result<Vec<String>, Failure> {
    let limit = u32::try_from(lines).unwrap_or(u32::MAX);
    let reply = client.show_messages(ShowMessagesRequest { limit }).await?.into_inner();
    Ok(reply.messages.iter().rev().filter_map(line).collect())
}

/// A message in the format of the log, with its process.
fn line(message: &ProgramMessage) -> Option<String> {
    let ProgramMessage { program, message } = message;
    let LogMessage { unix_us, level, text, .. } = message.as_ref()?;
    let time = date::with_micros(UNIX_EPOCH + Duration::from_micros(*unix_us));
    Some(format!("{time} {:>5} {program}: {text}", level.to_uppercase()))
}

/// The newest lines of the log of a process, or why they cannot be read.
fn read(pid: u64, lines: usize) -> Result<Lines, String> {
    let stderr = format!("/proc/{pid}/fd/2");
    let target = std::fs::read_link(&stderr).map_err(|error| {
        format!("cannot find the log of process {pid}: {stderr}: {error}; root can")
    })?;
    let name = target.display().to_string();
    match kind(&target, Path::new(&stderr)) {
        Kind::File => {
            let read = File::open(&stderr).and_then(|mut file| tail(&mut file, lines));
            let read = read.map_err(|error| format!("the log goes to {name}: {error}"))?;
            Ok((name, read))
        }
        Kind::Journal => Ok(("journal".to_owned(), journal(pid, lines)?)),
        Kind::Other(advice) => Err(format!("the log goes to {name}: {advice}")),
    }
}

/// Where standard error of a process goes.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    File,
    Journal,
    Other(&'static str),
}

fn kind(target: &Path, open: &Path) -> Kind {
    let text = target.to_string_lossy();
    match text.split_once(':') {
        Some(("socket", _)) => Kind::Journal,
        Some(("pipe", _)) => Kind::Other("another program reads it, such as `docker logs NAME`"),
        _ if std::fs::metadata(open).is_ok_and(|found| found.is_file()) => Kind::File,
        _ if text.starts_with("/dev/pts/") || text.starts_with("/dev/tty") => Kind::Other(
            "no command can read a terminal; `2> FILE` of `stoa run` keeps all in a file",
        ),
        _ => Kind::Other("it is not kept; start `stoa run` with `2> FILE`, or configure syslog"),
    }
}

/// The last lines of a file.
fn tail(file: &mut (impl Read + Seek), lines: usize) -> std::io::Result<Vec<String>> {
    let size = file.seek(SeekFrom::End(0))?;
    let begin = size.saturating_sub(TAIL_LIMIT_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(TAIL_LIMIT_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may have lost its beginning.
    let whole: Vec<&str> = text.lines().skip(usize::from(begin > 0)).collect();
    let first = whole.len().saturating_sub(lines);
    Ok(whole[first..].iter().map(|line| (*line).to_owned()).collect())
}

/// The last lines of the unit of a process.
fn journal(pid: u64, lines: usize) -> Result<Vec<String>, String> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let unit = groups.lines().find_map(|line| Some(line.rsplit_once('/')?.1));
    let unit = unit.filter(|unit| unit.ends_with(".service")).unwrap_or("stoa.service");
    let advice = format!("`journalctl --unit {unit}` shows the log");
    let output = Command::new("journalctl")
        .args([
            "--no-pager",
            "--output",
            "short-iso",
            "--lines",
            &lines.to_string(),
            "--unit",
            unit,
        ])
        .output()
        .map_err(|error| format!("journalctl: {error}; {advice}"))?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("journalctl: {cause}; {advice}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_last_lines_of_a_file_are_read() {
        let mut file = Cursor::new(b"one\ntwo\nthree\n".to_vec());
        assert_eq!(tail(&mut file, 2).unwrap(), ["two", "three"]);
        assert_eq!(tail(&mut file, 9).unwrap().len(), 3);
        let long = format!("{}\nlast\n", "x".repeat(TAIL_LIMIT_BYTES as usize));
        assert_eq!(tail(&mut Cursor::new(long.into_bytes()), 9).unwrap(), ["last"]);
    }

    #[test]
    fn a_message_in_memory_is_a_line_with_its_process() {
        let message = LogMessage {
            unix_us: 1_500_000,
            level: "warn".into(),
            text: "down name=lan".into(),
            ..LogMessage::default()
        };
        let all = ProgramMessage { program: "forwarder".into(), message: Some(message) };
        let expected = "1970-01-01T00:00:01.500000Z  WARN forwarder: down name=lan";
        assert_eq!(line(&all).as_deref(), Some(expected));
        assert_eq!(line(&ProgramMessage::default()), None);
    }

    #[test]
    fn a_log_that_cannot_be_read_names_who_has_it() {
        let of = |target: &str| kind(Path::new(target), Path::new("/nowhere"));
        assert_eq!(of("socket:[123]"), Kind::Journal);
        assert!(matches!(of("pipe:[123]"), Kind::Other(advice) if advice.contains("docker logs")));
        assert!(matches!(of("/dev/pts/3"), Kind::Other(advice) if advice.contains("terminal")));
        let here = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(kind(here.path(), here.path()), Kind::File);
    }
}
