//! Who may manage the router, as the configuration has it. Hashes are not shown.

use std::io::{self, Write};

use comfy_table::Cell;
use serde_json::{Value, json};

use super::table;

/// The users of a configuration.
fn all(configuration: &Value) -> impl Iterator<Item = &Value> {
    let users = &configuration["stoa-management:management"]["user"];
    users.as_array().into_iter().flatten()
}

/// Whether there is any.
pub fn is_any(configuration: &Value) -> bool {
    all(configuration).next().is_some()
}

/// For programs.
pub fn json(configuration: &Value) -> Value {
    let users = all(configuration).map(|user| {
        json!({
            "name": user["name"],
            "admin": user["admin"] == true,
            "groups": user["group"].as_array().cloned().unwrap_or_default(),
            "password": user["password-hash"].is_string(),
        })
    });
    json!({ "users": users.collect::<Vec<_>>() })
}

/// For eyes.
pub fn text(configuration: &Value, out: &mut dyn Write) -> io::Result<()> {
    if !is_any(configuration) {
        return writeln!(out, "There is no user yet: `stoa user setup` makes the first one.");
    }
    let mut shown = table(&["name", "may", "groups", "password"]);
    for user in all(configuration) {
        let may = if user["admin"] == true { "all" } else { "what rules permit" };
        let groups = user["group"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let password = if user["password-hash"].is_string() { "yes" } else { "none" };
        let groups = groups.collect::<Vec<_>>().join(", ");
        let name = user["name"].as_str().unwrap_or_default();
        shown.add_row([name, may, &groups, password].map(Cell::new));
    }
    super::write(&shown, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_without_their_hashes() {
        let configuration = json!({ "stoa-management:management": { "user": [
            { "name": "root", "password-hash": "$argon2id$x", "admin": true },
            { "name": "backup", "group": ["noc", "night"] },
        ] } });
        let mut out = Vec::new();
        text(&configuration, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["root", "all", "yes"]);
        assert!(lines[3].contains("noc, night") && lines[3].ends_with("none"), "{out}");
        let told = json(&configuration);
        assert_eq!(told["users"][0]["password"], true);
        assert!(!format!("{told}{out}").contains("argon2"));
        let mut out = Vec::new();
        text(&json!({}), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("stoa user setup"));
    }
}
