//! The control-plane policer: limits of punt classes.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};
use stoa_api::counters::{Metric, PUNTS};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::capability::{Capability, Facts, Page, Settings, Translated};
use crate::json::{list, object, text, with_counters};

/// The capability.
pub(crate) struct Punts;

impl Capability for Punts {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        for limit in &settings.model.system.punt.class {
            let v1::PuntLimit { class, rate, total, .. } = limit;
            if *total > 0 && total < rate {
                errors.add(
                    format!("/stoa-system:system/punt/class[name='{class}']/total"),
                    format!(
                        "the total of all interfaces is {total} packets per second, less than the rate of one, {rate}"
                    ),
                    "Set total to at least the rate, or remove it.",
                );
            }
            translated.desired.punts.push(limit.clone());
        }
    }

    /// `/stoa-forwarder:forwarder/punts`.
    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        let Some(rows) = facts.punts else { return };
        let forwarder = state.entry("stoa-forwarder:forwarder").or_insert_with(|| json!({}));
        forwarder["punts"] = json!({ "punt": classes(rows) });
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        let all = facts.punts.unwrap_or_default();
        let sums = all.iter().filter(|it| it.interface.is_empty());
        let each = all.iter().filter(|it| !it.interface.is_empty());
        page.table(PUNTS, sums.clone(), |it| [("class", it.class.as_str())])?;
        let limits = sums.map(|it| ([("class", it.class.as_str())], f64::from(it.rate)));
        let help = "Limit of a class for all interfaces together";
        page.gauges("punt_limit", "packets_per_second", help, limits)?;
        for counter in PUNTS {
            let Some(Metric { name, unit, .. }) = counter.metric else { continue };
            let labels = |it: &'_ v1::PuntState| {
                [("class", it.class.clone()), ("interface", it.interface.clone())]
            };
            let samples = each.clone().map(|it| (labels(it), (counter.of)(it)));
            let help = format!("As {name}, by interface");
            page.counters(&format!("interface_{name}"), unit, &help, samples)?;
        }
        Ok(())
    }
}

/// One entry for each class: the total of all interfaces and the rows of each interface.
fn classes(rows: &[v1::PuntState]) -> Vec<Value> {
    let mut of_interfaces: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.interface.is_empty()) {
        let entry = object([
            ("name", text(&row.interface)),
            ("rate", json!(row.rate)),
            ("burst", json!(row.burst)),
        ]);
        let entry = with_counters(entry, PUNTS, row);
        of_interfaces.entry(&row.class).or_default().push(entry);
    }
    let class = |row: &v1::PuntState| {
        let class = object([
            ("class", text(&row.class)),
            ("description", text(&row.description)),
            ("urgent", json!(row.urgent)),
            ("total", json!(row.rate)),
            ("interface", list(of_interfaces.get(row.class.as_str()).cloned().unwrap_or_default())),
        ]);
        with_counters(class, PUNTS, row)
    };
    rows.iter().filter(|row| row.interface.is_empty()).map(class).collect()
}
