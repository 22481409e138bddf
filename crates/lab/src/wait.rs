//! Waits for a condition with a timeout, in place of fixed sleeps.

use std::time::{Duration, Instant};

use crate::{LabError, Result, interrupt};

/// How often a condition is checked.
const PERIOD: Duration = Duration::from_millis(20);

/// Waits until `condition` returns `Ok`, at most `deadline`. An `Err` describes the observed state; the error
/// contains the last one.
///
/// # Errors
///
/// [`LabError::WaitDeadline`] when the time is over, [`LabError::Interrupted`] after Ctrl-C.
pub fn wait_until<T, F>(what: &str, deadline: Duration, mut condition: F) -> Result<T>
where
    F: FnMut() -> std::result::Result<T, String>,
{
    let end = Instant::now() + deadline;
    loop {
        interrupt::check()?;
        let show_output = match condition() {
            Ok(value) => return Ok(value),
            Err(show_output) => show_output,
        };
        if Instant::now() >= end {
            let last = if show_output.is_empty() {
                String::new()
            } else {
                format!("; last seen: {show_output}")
            };
            return Err(LabError::WaitDeadline { what: what.to_owned(), deadline, last });
        }
        std::thread::sleep(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_condition() {
        let mut calls = 0;
        let value = wait_until("three calls", Duration::from_secs(5), || {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err(String::new()) }
        });
        assert_eq!(value.expect("the condition is met"), 3);
    }

    #[test]
    fn reports_the_last_state() {
        let outcome: Result<()> =
            wait_until("it rains", Duration::from_millis(1), || Err("sunshine".to_owned()));
        let printed = outcome.expect_err("it never does").to_string();
        assert!(printed.contains("it rains") && printed.contains("sunshine"), "{printed}");
    }
}
