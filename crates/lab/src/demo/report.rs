//! Output of the demo: a line for each step, or one JSON object at the end.

use std::io::{IsTerminal, Write};

use serde::Serialize;

/// One step and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// A short, stable name.
    pub name: String,
    /// Whether it passed.
    pub ok: bool,
    /// The measured result, or the error and how to fix it.
    pub detail: String,
}

/// All steps so far.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether every step passed.
    pub ok: bool,
    /// In order of execution.
    pub steps: Vec<Step>,
    #[serde(skip)]
    quiet: bool,
    #[serde(skip)]
    colour: bool,
}

impl Report {
    /// An empty report. In JSON mode the lines for people go to standard error, so that standard output contains only
    /// JSON.
    pub(crate) fn new(json: bool) -> Self {
        let terminal =
            if json { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let colour = terminal && std::env::var_os("NO_COLOR").is_none();
        Self { ok: true, steps: Vec::new(), quiet: json, colour }
    }

    /// Prints a line for people.
    pub(crate) fn print(&self, line: &str) {
        // A closed output must not end the demo before the cleanup.
        let _ = if self.quiet {
            writeln!(std::io::stderr(), "{line}")
        } else {
            writeln!(std::io::stdout(), "{line}")
        };
    }

    /// Adds a step: `Ok` with the result, `Err` with the error. Returns whether it passed.
    pub(crate) fn step(&mut self, name: &str, outcome: Result<String, String>) -> bool {
        let (ok, detail) = match outcome {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        if crate::interrupt::came() && !ok {
            // After Ctrl-C all further steps fail; one line is enough.
            if self.ok {
                self.print("  interrupted; cleaning up ...");
            }
            self.record(name, ok, detail);
            return ok;
        }
        let (mark, colour) = if ok { ("ok    ", "32") } else { ("FAILED", "1;31") };
        if self.colour {
            self.print(&format!("  \x1b[{colour}m{mark}\x1b[0m {name:<26} {detail}"));
        } else {
            self.print(&format!("  {mark} {name:<26} {detail}"));
        }
        self.record(name, ok, detail);
        ok
    }

    fn record(&mut self, name: &str, ok: bool, detail: String) {
        self.ok &= ok;
        self.steps.push(Step { name: name.to_owned(), ok, detail });
    }

    /// The JSON object, in one line.
    pub(crate) fn json(&self) -> String {
        serde_json::json!({ "ok": self.ok, "steps": self.steps }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_step_fails_the_demo() {
        let mut report = Report::new(true);
        report.step("one", Ok("fine".to_owned()));
        assert!(report.ok);
        report.step("two", Err("reason".to_owned()));
        report.step("three", Ok("fine".to_owned()));
        assert!(!report.ok);
        let value: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(value["ok"], false);
        assert_eq!(
            value["steps"][1],
            serde_json::json!({"name": "two", "ok": false, "detail": "reason"})
        );
        assert!(!report.json().contains('\n'));
    }
}
