//! Waits for a condition with a timeout, in place of fixed sleeps.

use std::time::{Duration, Instant};

use crate::{LabError, Result, interrupt};

/// The shortest and the longest pause between two checks of a condition.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];
/// How many times as long as a check the pause behind it is: a check often starts a program, and those that wait must
/// not keep the processor from what they wait for.
const SHARE: u32 = 4;

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
        let begun = Instant::now();
        let show_output = match condition() {
            Ok(value) => return Ok(value),
            Err(show_output) => show_output,
        };
        let checked = Instant::now();
        if checked >= end {
            let last = if show_output.is_empty() {
                String::new()
            } else {
                format!("; last seen: {show_output}")
            };
            return Err(LabError::WaitDeadline { what: what.to_owned(), deadline, last });
        }
        std::thread::sleep((SHARE * (checked - begun)).clamp(PAUSES[0], PAUSES[1]));
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
