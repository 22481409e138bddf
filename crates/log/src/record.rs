//! A log message with its fields, before it is formatted.

use std::fmt::{self, Write as _};

use tracing::Event;
use tracing::field::{Field, Visit};

/// A message and its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) message: String,
    /// Names are those of Rust identifiers, in dotted paths.
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl Record {
    /// The message and the fields of an event.
    pub(crate) fn of(event: &Event<'_>) -> Record {
        let mut record = Record::default();
        event.record(&mut record);
        record
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.fields.push((name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Fails only if the `Debug` of the value does.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.fields.push((field.name(), format!("{value:?}")));
        }
    }
}
