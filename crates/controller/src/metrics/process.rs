//! Statistics of controller and forwarder from /proc.

use std::fmt;
use std::fs;

use super::page::Page;

/// Resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProcessStatistics {
    cpu_s: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    files: u64,
}

/// The statistics of a process; `None` if it does not exist or cannot be read.
pub(super) fn read(pid: u32) -> Option<ProcessStatistics> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |files| files.count() as u64);
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    parse(&stat, files, u64::try_from(ticks).ok()?, u64::try_from(page).ok()?)
}

/// Parses /proc/PID/stat: see proc(5).
#[allow(clippy::cast_precision_loss)]
fn parse(stat: &str, files: u64, ticks_per_s: u64, page_bytes: u64) -> Option<ProcessStatistics> {
    // The name in parentheses may contain parentheses. The fields after it count from 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStatistics {
        cpu_s: (field(14)? + field(15)?) as f64 / ticks_per_s.max(1) as f64,
        threads: field(20)?,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * page_bytes,
        files,
    })
}

/// Writes the metrics of the processes.
#[allow(clippy::cast_precision_loss)]
pub(super) fn render(
    page: &mut Page<'_>,
    all: &[(&'static str, ProcessStatistics)],
) -> fmt::Result {
    let cpu = all.iter().map(|(name, it)| ([("process", *name)], it.cpu_s));
    page.seconds("process_cpu", "Processor time of all threads", cpu)?;
    type Of = fn(&ProcessStatistics) -> u64;
    let gauges: [(&str, &str, &str, Of); 4] = [
        ("process_resident_memory", "bytes", "Memory in use", |it| it.resident_bytes),
        ("process_virtual_memory", "bytes", "Address space in use", |it| it.virtual_bytes),
        ("process_threads", "", "Threads", |it| it.threads),
        ("process_open_fds", "", "Open files and sockets", |it| it.files),
    ];
    for (name, unit, help, of) in gauges {
        let samples = all.iter().map(|(name, it)| ([("process", *name)], of(it) as f64));
        page.gauges(name, unit, help, samples)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_parentheses() {
        let stat =
            "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 1000 8192000 500 1";
        let statistics = parse(stat, 9, 100, 4096).unwrap();
        let expected = ProcessStatistics {
            cpu_s: 2.0,
            resident_bytes: 2_048_000,
            virtual_bytes: 8_192_000,
            threads: 3,
            files: 9,
        };
        assert_eq!(statistics, expected);
        assert_eq!(parse("7 (a) S 1", 0, 100, 4096), None);
        assert_eq!(parse("", 0, 100, 4096), None);
    }

    #[test]
    fn this_process_has_statistics() {
        let statistics = read(std::process::id()).unwrap();
        assert!(statistics.threads > 0 && statistics.files > 0 && statistics.resident_bytes > 0);
        assert_eq!(read(u32::MAX), None);
    }
}
