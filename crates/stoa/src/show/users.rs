//! The users of the configuration, without their password hashes.

use std::io::{self, Write};

use comfy_table::Cell;
use serde_json::{Value, json};

use super::table;

/// The users of a configuration.
fn all(configuration: &Value) -> impl Iterator<Item = &Value> {
    let users = &configuration["stoa-management:management"]["user"];
    users.as_array().into_iter().flatten()
}

/// Whether there is a user.
pub fn is_any(configuration: &Value) -> bool {
    all(configuration).next().is_some()
}

/// Whether there is an administrator.
pub fn has_administrator(configuration: &Value) -> bool {
    all(configuration).any(|user| user["admin"] == true)
}

/// The users as JSON.
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

/// The users as a table.
pub fn text(configuration: &Value, out: &mut dyn Write) -> io::Result<()> {
    if !is_any(configuration) {
        return writeln!(out, "There is no user yet: `stoa user setup` creates the first one.");
    }
    let mut shown = table(&["name", "access", "groups", "password"]);
    for user in all(configuration) {
        let access = if user["admin"] == true { "all" } else { "by rules" };
        let groups = user["group"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let password = if user["password-hash"].is_string() { "yes" } else { "none" };
        let groups = groups.collect::<Vec<_>>().join(", ");
        let name = user["name"].as_str().unwrap_or_default();
        shown.add_row([name, access, &groups, password].map(Cell::new));
    }
    super::write(&shown, out)?;
    match has_administrator(configuration) {
        true => Ok(()),
        false => writeln!(out, "There is no administrator: `stoa user setup` creates one."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_shown_without_their_hashes() {
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
        let shown = json(&configuration);
        assert_eq!(shown["users"][0]["password"], true);
        assert!(!format!("{shown}{out}").contains("argon2"));
        let mut out = Vec::new();
        text(&json!({}), &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("stoa user setup"));
    }
}
