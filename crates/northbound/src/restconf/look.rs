//! Operations that look at the router and change nothing: how the datastores stand, which routes there are, and where
//! a capture is had.

use http::StatusCode;
use ipnet::IpNet;
use serde_json::{Value, json};
use stoa_controller::datastore::Datastore;
use stoa_controller::filter;
use stoa_controller::find_routes::{self, Error, Search};

use super::Call;
use super::fault::{Fault, Faults};
use super::rpc::Input;
use crate::audit::timestamp;
use crate::capture::{self, Asked};

/// `stoa-datastore:status`.
pub fn status(datastore: &Datastore) -> Value {
    let mut output = json!({ "edited": datastore.is_edited() });
    if let Some(waits) = datastore.unconfirmed() {
        output["confirm-by"] = timestamp(waits.deadline).into();
        output["confirm-left"] = u32::try_from(waits.left().as_secs()).unwrap_or(u32::MAX).into();
        output["author"] = waits.author.into();
    }
    if let Some(holder) = datastore.holder() {
        output["holder"] = holder.to_string().into();
    }
    output
}

/// `stoa-forwarder:find-routes`.
pub async fn find_routes(call: &Call, input: &Input) -> Result<Value, Faults> {
    let path = |leaf: &str| format!("/stoa-forwarder:find-routes/{leaf}");
    let prefix = |leaf: &str| match input.value(leaf) {
        None => Ok(None),
        Some(text) => match net(&text) {
            Some(net) => Ok(Some(net)),
            None => Err(Fault::value(format!("{text:?} is no prefix")).at(path(leaf))),
        },
    };
    let search = Search {
        table: input.value("table").unwrap_or_else(|| "ipv4-default".into()),
        prefix: prefix("prefix")?,
        after: prefix("after")?,
        limit: input.number("limit").and_then(|it| it.try_into().ok()).unwrap_or(100),
    };
    let found = find_routes::find(call.front.datastore.line(), &search).await;
    found.map_err(|error| {
        let words = error.to_string();
        match error {
            Error::NoTable(_) => Fault::nowhere(words).at(path("table")).into(),
            Error::OtherFamily(..) => Fault::value(words).at(path("prefix")).into(),
            Error::Unreachable(_) => unavailable(words),
        }
    })
}

fn net(text: &str) -> Option<IpNet> {
    let address = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().or_else(address)
}

fn unavailable(words: String) -> Faults {
    Fault::application(StatusCode::SERVICE_UNAVAILABLE, "operation-failed", words).into()
}

/// `stoa-forwarder:capture`: looks at what is asked for, and says the URL.
pub async fn capture(call: &Call, input: &Input) -> Result<Value, Faults> {
    let mut asked = Asked::default();
    let at = |leaf: &str| format!("/stoa-forwarder:capture/{leaf}");
    for leaf in ["interface", "packets", "seconds", "snap-length", "filter"] {
        if let Some(value) = input.value(leaf) {
            asked.set(leaf, &value).map_err(|words| Fault::value(words).at(at(leaf)))?;
        }
    }
    for value in input.values("direction") {
        asked.set("direction", &value).map_err(|words| Fault::value(words).at(at("direction")))?;
    }
    let line = call.front.datastore.line();
    let compiled = filter::of_interface(line, &asked.interface, &asked.filter).await;
    compiled.map_err(|status| match capture::status_of(&status) {
        StatusCode::SERVICE_UNAVAILABLE => unavailable(status.message().to_owned()),
        _ => Fault::value(status.message()).at(at("filter")).into(),
    })?;
    Ok(json!({ "url": asked.url() }))
}
