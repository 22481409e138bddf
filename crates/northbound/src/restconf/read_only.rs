//! Operations that only read: the status of the datastores, comparisons, and the URL of a capture.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use stoa_controller::datastore::{Datastore, Refusal, Snapshot, Store, change, visit};
use stoa_controller::filter;

use super::call::Call;
use super::fault::{Fault, Faults};
use super::operation::{Input, shown};
use super::searches::unavailable;
use crate::audit::timestamp;
use crate::capture::{self, CaptureParameters};
use crate::nacm::{Operation, Rights};

/// Maximum number of changes in a response.
const CHANGES_LIMIT: usize = 10_000;

/// `stoa-datastore:status`.
pub fn status(datastore: &Datastore) -> Value {
    let mut output = json!({ "edited": datastore.is_edited() });
    if let Some(waits) = datastore.unconfirmed() {
        output["confirm-by"] = timestamp(waits.deadline).into();
        output["confirm-left"] =
            u32::try_from(waits.remaining().as_secs()).unwrap_or(u32::MAX).into();
        output["author"] = waits.author.into();
    }
    if let Some(holder) = datastore.holder() {
        output["holder"] = holder.to_string().into();
        output["locked-since"] = timestamp(holder.since).into();
    }
    output
}

/// `stoa-datastore:compare`.
pub async fn compare(call: &Call, input: &Input) -> Result<Value, Faults> {
    let side = |number: &str, store: &str, usual| match input.number(number) {
        Some(number) => Side::Past(number),
        None => Side::Now(match input.value(store).as_deref() {
            Some("candidate") => Store::Candidate,
            Some("running") => Store::Running,
            Some("startup") => Store::Startup,
            _ => usual,
        }),
    };
    let old = side("old-number", "old", Store::Running);
    let new = side("new-number", "new", Store::Candidate);
    let (datastore, identity) = (call.app.datastore.clone(), call.identity.clone());
    let management = call.app.management();
    // Reads and parses files of the history: not on a thread that answers clients.
    let compared = call.app.turns.compare(&call.identity.name, move || {
        let (old, new) = (old.tree(&datastore)?, new.tree(&datastore)?);
        let rights = Rights::of(&identity, &management);
        let (mut list, mut more) = (Vec::new(), 0_u64);
        visit(&old.tree, &new.tree, |kind, node| {
            if !rights.may(Operation::Read, &super::read::steps_to(node)) {
                return;
            }
            match list.len() < CHANGES_LIMIT {
                true => list.push(shown(&change(kind, node))),
                false => more += 1,
            }
        })?;
        let mut output = json!({ "change": list });
        if more > 0 {
            output["more"] = more.to_string().into();
        }
        Ok::<_, Refusal>(output)
    });
    Ok(compared.await.map_err(|_| Fault::broken("the comparison failed"))??)
}

/// One side of a comparison.
enum Side {
    Past(u64),
    Now(Store),
}

impl Side {
    fn tree(self, datastore: &Datastore) -> Result<Arc<Snapshot>, Refusal> {
        match self {
            Side::Past(number) => datastore.history_tree(number).map(Arc::new),
            Side::Now(store) => Ok(datastore.tree(store)),
        }
    }
}

/// `stoa-forwarder:capture`: checks the parameters and returns the URL.
pub async fn capture(call: &Call, input: &Input) -> Result<Value, Faults> {
    let mut asked = CaptureParameters::default();
    let at = |leaf: &str| format!("/stoa-forwarder:capture/{leaf}");
    for leaf in ["interface", "packets", "seconds", "snap-length", "filter"] {
        if let Some(value) = input.value(leaf) {
            asked.set(leaf, &value).map_err(|words| Fault::value(words).at(at(leaf)))?;
        }
    }
    for value in input.values("direction") {
        asked.set("direction", &value).map_err(|words| Fault::value(words).at(at("direction")))?;
    }
    let line = call.app.datastore.connection();
    let compiled = filter::of_interface(line, &asked.interface, &asked.filter).await;
    compiled.map_err(|status| match capture::status_of(&status) {
        StatusCode::SERVICE_UNAVAILABLE => unavailable(status.message().to_owned()),
        _ => Fault::value(status.message()).at(at("filter")).into(),
    })?;
    Ok(json!({ "url": asked.url() }))
}
