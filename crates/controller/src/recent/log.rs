//! Log messages of both processes in one order.

use stoa_api::v1::LogMessage;

/// A log message and the process that logged it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramMessage {
    /// `controller` or `forwarder`.
    pub program: &'static str,
    /// The message.
    pub message: LogMessage,
}

/// Newest first.
pub(super) fn merged(
    controller: Vec<LogMessage>,
    forwarder: Vec<LogMessage>,
    limit: usize,
    level: &str,
) -> Vec<ProgramMessage> {
    let of = |program: &'static str| move |message| ProgramMessage { program, message };
    let least = rank(level);
    let all = controller.into_iter().map(of("controller"));
    let all = all.chain(forwarder.into_iter().map(of("forwarder")));
    let mut all: Vec<_> = all.filter(|it| rank(&it.message.level) <= least).collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.message.unix_us));
    all.truncate(limit);
    all
}

/// The position of a level; unknown levels are the most detailed.
fn rank(level: &str) -> usize {
    stoa_log::LEVELS.iter().position(|known| *known == level).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(unix_us: u64, level: &str) -> LogMessage {
        LogMessage { unix_us, level: level.into(), target: "here".into(), text: "words".into() }
    }

    #[test]
    fn messages_are_merged_by_time_and_limited_by_level() {
        let controller = || vec![message(1, "info"), message(4, "debug"), message(5, "error")];
        let forwarder = || vec![message(2, "warn"), message(3, "info")];
        let shown = |limit, level| -> Vec<(u64, &str)> {
            let all = merged(controller(), forwarder(), limit, level);
            all.into_iter().map(|it| (it.message.unix_us, it.program)).collect()
        };
        let (controller, forwarder) = ("controller", "forwarder");
        let all = [(5, controller), (3, forwarder), (2, forwarder), (1, controller)];
        assert_eq!(shown(10, "info"), all);
        assert_eq!(shown(2, "info"), all[..2]);
        assert_eq!(shown(10, "warn"), [(5, controller), (2, forwarder)]);
        assert_eq!(shown(10, "trace").len(), 5);
    }
}
