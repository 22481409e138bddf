//! The results of `stoa doctor`: a table, then the cost and fix of each gap.

use std::io::{self, Write};

use comfy_table::Cell;
use serde_json::{Value, json};
use stoa_controller::doctor::{Check, State};

use super::{table, write};

/// The results as text.
pub fn text(checks: &[Check], out: &mut dyn Write) -> io::Result<()> {
    let mut shown = table(&["what", "state", "found"]);
    for check in checks {
        shown.add_row([check.name, check.state.name(), &check.found].map(Cell::new));
    }
    write(&shown, out)?;
    let gaps: Vec<_> = checks.iter().filter(|check| check.state != State::Ok).collect();
    for check in &gaps {
        writeln!(out, "\n{}: {}", check.name, check.state.name())?;
        writeln!(out, "  costs  {}", check.costs)?;
        writeln!(out, "  fix    {}", check.fix)?;
    }
    writeln!(out, "\n{}", summary(&gaps))
}

fn summary(gaps: &[&Check]) -> String {
    let missing = gaps.iter().filter(|check| check.state == State::Missing).count();
    match (missing, gaps.len() - missing) {
        (0, 0) => "This machine has everything that a router can use.".to_owned(),
        (0, better) => format!("Stoa runs well here; {better} could be better."),
        (missing, better) => format!("{missing} missing, {better} could be better."),
    }
}

/// The results as JSON.
pub fn json(checks: &[Check]) -> Value {
    let one = |check: &Check| {
        json!({
            "name": check.name,
            "state": check.state.name(),
            "found": check.found,
            "costs": check.costs,
            "fix": check.fix,
        })
    };
    json!({ "checks": checks.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gap_has_its_cost_and_its_fix() {
        let check = |state, costs: &str| Check {
            name: "clock",
            state,
            found: "a sundial".to_owned(),
            costs: costs.to_owned(),
            fix: "take another".to_owned(),
        };
        let shown = |checks: &[Check]| {
            let mut out = Vec::new();
            text(checks, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(shown(&[check(State::Ok, "")]).contains("everything that a router can use"));
        let poor = shown(&[check(State::Missing, "no nights"), check(State::Better, "clouds")]);
        assert!(poor.contains("a sundial") && poor.contains("  costs  no nights"), "{poor}");
        assert!(poor.contains("  fix    take another"), "{poor}");
        assert!(poor.ends_with("1 missing, 1 could be better.\n"), "{poor}");
        assert_eq!(json(&[check(State::Better, "")])["checks"][0]["state"], "could be better");
    }
}
