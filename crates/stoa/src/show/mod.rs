//! The output of commands, one file for each topic: a table, and JSON with the contract's field names.

pub mod acl;
pub mod audit;
pub mod bfd;
pub mod configuration;
pub mod conservation;
pub mod doctor;
pub mod drops;
pub mod flow_filter;
mod flow_summary;
pub mod flow_sync;
pub mod flows;
pub mod interface;
pub mod interfaces;
pub mod ipfix;
pub mod ipsec;
pub mod limits;
pub mod log;
pub mod logins;
pub mod metrics;
pub mod nat;
pub mod nat_mappings;
pub mod neighbors;
pub mod nodes;
pub mod punts;
pub mod route_query;
pub mod route_sources;
pub mod route_summary;
pub mod routes;
pub mod rules;
pub mod state;
pub mod status;
pub mod tables;
pub mod trace;
pub mod users;
pub mod version;
pub mod vrrp;
pub mod workers;
pub mod zones;

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};
use stoa_api::counters::{self, Counter};
use stoa_api::v1::ValidationError;

/// Prints one line or block to standard output.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Validation errors as JSON.
pub fn errors(errors: &[ValidationError]) -> Value {
    errors
        .iter()
        .map(|error| json!({ "path": error.path, "cause": error.cause, "fix": error.fix }))
        .collect()
}

/// An empty table with a header. Columns whose name starts with ">" are aligned to the right.
pub fn table<S: AsRef<str>>(columns: &[S]) -> Table {
    let mut table = Table::new();
    table.load_preset("     ──            ");
    let names = columns.iter().map(AsRef::as_ref);
    table.set_header(names.clone().map(|name| name.trim_start_matches('>').to_uppercase()));
    for (index, name) in names.enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
            if name.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table
}

/// Writes a table without trailing white space.
pub fn write(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// "1,234,567".
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "13:04:05.678901", the time of day in UTC.
pub fn clock(unix_ns: u64) -> String {
    let (seconds, micros) = (unix_ns / 1_000_000_000 % 86_400, unix_ns % 1_000_000_000 / 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
}

/// "2 d 3 h", "5 min 7 s".
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A number in a cell.
fn count(value: u64) -> Cell {
    Cell::new(number(value))
}

/// The columns of a table with counters: first, the columns before them; last, those after.
fn columns<T>(first: &[&str], table: &'static [Counter<T>], last: &[&str]) -> Vec<String> {
    let headings = counters::columns(table).filter_map(|counter| counter.column);
    let headings = headings.map(|name| format!(">{name}"));
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    own(first).into_iter().chain(headings).chain(own(last)).collect()
}

/// The cells of the counters of a row.
fn counts<T>(table: &'static [Counter<T>], row: &T) -> impl Iterator<Item = Cell> {
    counters::columns(table).map(|counter| count((counter.of)(row)))
}

/// An object with the counters of a row, and then the members of another object.
fn with_counters<T>(object: Value, table: &[Counter<T>], row: &T, last: Value) -> Value {
    let counters = table.iter().map(|counter| (counter.key.to_owned(), (counter.of)(row).into()));
    let members = |object: Value| match object {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    members(object).into_iter().chain(counters).chain(members(last)).collect()
}

/// The ratio of two numbers; `None` if the second is 0.
#[allow(clippy::cast_precision_loss)] // shown with one digit
fn ratio(numerator: u64, denominator: u64) -> Option<f64> {
    (denominator > 0).then(|| numerator as f64 / denominator as f64)
}

/// A ratio in a cell.
fn ratio_cell(value: Option<f64>) -> Cell {
    Cell::new(value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")))
}

/// The headings of a table, and the keys of an object, for tests.
#[cfg(test)]
fn names(table: &Table, object: &Value) -> (Vec<String>, Vec<String>) {
    let header = table.header().map(|row| row.cell_iter().map(Cell::content).collect());
    let keys = object.as_object().map(|members| members.keys().cloned().collect());
    (header.unwrap_or_default(), keys.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_000), "1,000");
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn durations_have_two_units() {
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(3_660), "1 h 1 min");
        assert_eq!(duration(90_000), "1 d 1 h");
    }

    #[test]
    fn tables_are_plain() {
        let mut shown = table(&["name", ">packets"]);
        shown.add_row(vec![Cell::new("a"), count(12_345)]);
        shown.add_row(vec![Cell::new("longer"), count(7)]);
        let mut out = Vec::new();
        write(&shown, &mut out).unwrap();
        let expected = "NAME     PACKETS\n──────────────────\n\
                        a         12,345\nlonger         7\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
