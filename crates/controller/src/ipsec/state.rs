//! Security associations as YANG data, and as metrics.

use std::fmt;

use serde_json::{Map, Value, json};
use stoa_api::counters::SECURITY_ASSOCIATIONS;
use stoa_api::v1;

use crate::capability::Page;
use crate::json::{list, number, object, text, with_counters};

/// Adds `/stoa-ipsec:ipsec/sad`.
pub(super) fn add(listed: &v1::ListSasReply, state: &mut Map<String, Value>) {
    let entry = |it: &v1::SecurityAssociationState| {
        let of = it.association.as_ref()?;
        let state = object([
            ("in-force", Value::Bool(it.in_force)),
            ("reason", text(&it.reason)),
            ("algorithm", text(&of.algorithm)),
            ("engine", text(&it.engine)),
            ("sequence-number", number(it.sequence)),
        ]);
        let state = with_counters(state, SECURITY_ASSOCIATIONS, it);
        Some(json!({ "name": of.name, "ipsec-sa-state": state }))
    };
    let entries = list(listed.associations.iter().filter_map(entry));
    if !entries.is_null() {
        state.insert("stoa-ipsec:ipsec".to_owned(), json!({ "sad": { "sad-entry": entries } }));
    }
}

/// Adds what was sent, received and refused.
pub(super) fn metrics(listed: &v1::ListSasReply, page: &mut Page<'_>) -> fmt::Result {
    let labels = |it: &v1::SecurityAssociationState| {
        let of = it.association.as_ref();
        let direction = of.map_or("", |it| it.direction().name()).to_owned();
        let of = |get: fn(&v1::SecurityAssociation) -> &String| of.map(get).cloned();
        [
            ("association", of(|it| &it.name).unwrap_or_default()),
            ("interface", of(|it| &it.interface).unwrap_or_default()),
            ("direction", direction),
        ]
    };
    page.table(SECURITY_ASSOCIATIONS, listed.associations.iter(), labels)?;
    let up = listed.associations.iter().map(|it| (labels(it), f64::from(u8::from(it.in_force))));
    page.gauges("ipsec_sa_up", "", "Whether packets use a security association", up)
}
