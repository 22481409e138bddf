//! Values in RFC 7951 encoding.

use serde_json::{Value, json};
use stoa_api::counters::{Counter, Leaf};

/// A 64-bit number, which is a string in JSON (RFC 7951, section 6.1).
pub(crate) fn number(value: u64) -> Value {
    Value::String(value.to_string())
}

/// An object without the members that are null.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let present = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(present.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// An object with the counters of a row.
pub(crate) fn with_counters<T>(mut object: Value, table: &[Counter<T>], row: &T) -> Value {
    for counter in table {
        let value = (counter.of)(row);
        match counter.leaf {
            Some(Leaf::Long(name)) => object[name] = number(value),
            Some(Leaf::Short(name)) => object[name] = json!(value as u32),
            None => {}
        }
    }
    object
}

/// A text, or null where there is none.
pub(crate) fn text(value: &str) -> Value {
    if value.is_empty() { Value::Null } else { Value::String(value.to_owned()) }
}

/// A list, or null where it has no entry.
pub(crate) fn list(entries: impl IntoIterator<Item = Value>) -> Value {
    let entries: Vec<Value> = entries.into_iter().collect();
    if entries.is_empty() { Value::Null } else { Value::Array(entries) }
}
