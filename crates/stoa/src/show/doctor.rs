//! What the doctor found: a table of what is there, then what is to be fixed.

use std::io::{self, Write};

use comfy_table::Cell;
use serde_json::{Value, json};
use stoa_controller::doctor::{Check, State};

use super::{table, write};

/// For eyes.
pub fn text(checks: &[Check], out: &mut dyn Write) -> io::Result<()> {
    let mut made = table(&["what", "state", "found"]);
    for check in checks {
        made.add_row([check.name, check.state.name(), &check.found].map(Cell::new));
    }
    write(&made, out)?;
    let poor: Vec<_> = checks.iter().filter(|check| check.state != State::Ok).collect();
    for check in &poor {
        writeln!(out, "\n{}: {}", check.name, check.state.name())?;
        writeln!(out, "  costs  {}", check.costs)?;
        writeln!(out, "  fix   {}", check.fix)?;
    }
    writeln!(out, "\n{}", verdict(&poor))
}

fn verdict(poor: &[&Check]) -> String {
    let missing = poor.iter().filter(|check| check.state == State::Missing).count();
    match (missing, poor.len() - missing) {
        (0, 0) => "This machine has all that a router can ask for.".to_owned(),
        (0, better) => format!("Stoa runs well here; {better} could be better."),
        (missing, better) => format!("{missing} missing, {better} could be better."),
    }
}

/// For programs.
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
    fn what_is_poor_is_told_with_its_cost_and_its_fix() {
        let check = |state, costs: &str| Check {
            name: "clock",
            state,
            found: "a sundial".to_owned(),
            costs: costs.to_owned(),
            fix: "take another".to_owned(),
        };
        let said = |checks: &[Check]| {
            let mut out = Vec::new();
            text(checks, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(said(&[check(State::Ok, "")]).contains("all that a router can ask for"));
        let poor = said(&[check(State::Missing, "no nights"), check(State::Better, "clouds")]);
        assert!(poor.contains("a sundial") && poor.contains("  costs  no nights"), "{poor}");
        assert!(poor.contains("  fix   take another"), "{poor}");
        assert!(poor.ends_with("1 missing, 1 could be better.\n"), "{poor}");
        assert_eq!(json(&[check(State::Better, "")])["checks"][0]["state"], "could be better");
    }
}
