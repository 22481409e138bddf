//! The newest lines of the log: of the journal, or of the file that standard error of `stoa run` goes to.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use stoa_api::v1::StatusRequest;

use crate::failure::Failure;
use crate::operator::Client;

/// The end of a file that is read, in bytes.
const TAIL_LIMIT_BYTES: u64 = 4 << 20;

/// Finds the log of the running router and prints its newest lines.
pub async fn show(
    client: &mut Client,
    lines: usize,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let status = client.status(StatusRequest {}).await?.into_inner();
    let pid = if status.supervisor_pid > 0 { status.supervisor_pid } else { status.controller_pid };
    let log = read(pid, lines)?;
    match as_json {
        true => writeln!(out, "{}", json!({ "lines": log }))?,
        false => log.iter().try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(())
}

/// The newest lines of the log of a process.
fn read(pid: u64, lines: usize) -> Result<Vec<String>, Failure> {
    let stderr = format!("/proc/{pid}/fd/2");
    let target = std::fs::read_link(&stderr).map_err(|error| {
        Failure::Message(format!(
            "cannot find the log of process {pid}: {stderr}: {error}; run the command as root"
        ))
    })?;
    match kind(&target, Path::new(&stderr)) {
        Kind::File => {
            let mut file =
                File::open(&stderr).map_err(|error| Failure::context(target.display(), error))?;
            tail(&mut file, lines).map_err(|error| Failure::context(target.display(), error))
        }
        Kind::Journal => journal(pid, lines),
        Kind::Other(advice) => {
            Err(Failure::Message(format!("the log goes to {}: {advice}", target.display())))
        }
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
        _ if text.starts_with("/dev/pts/") || text.starts_with("/dev/tty") => {
            Kind::Other("look at that terminal, or start `stoa run` with `2> FILE`")
        }
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
fn journal(pid: u64, lines: usize) -> Result<Vec<String>, Failure> {
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
        .map_err(|error| Failure::Message(format!("journalctl: {error}; {advice}")))?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::Message(format!("journalctl: {cause}; {advice}")));
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
    fn a_log_that_cannot_be_read_names_who_has_it() {
        let of = |target: &str| kind(Path::new(target), Path::new("/nowhere"));
        assert_eq!(of("socket:[123]"), Kind::Journal);
        assert!(matches!(of("pipe:[123]"), Kind::Other(advice) if advice.contains("docker logs")));
        assert!(matches!(of("/dev/pts/3"), Kind::Other(advice) if advice.contains("terminal")));
        let here = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(kind(here.path(), here.path()), Kind::File);
    }
}
