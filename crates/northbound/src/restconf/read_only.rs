//! Operations that only read: the status of the datastores, comparisons, routes, and the URL of a capture.

use std::sync::Arc;

use http::StatusCode;
use ipnet::IpNet;
use serde_json::{Value, json};
use stoa_controller::datastore::{Datastore, Refusal, Snapshot, Store, change, visit};
use stoa_controller::filter;
use stoa_controller::find_routes::{self, Error, Search};

use super::call::Call;
use super::fault::{Fault, Faults};
use super::operation::{Input, shown};
use super::path;
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

/// `stoa-forwarder:find-routes`.
pub async fn find_routes(call: &Call, input: &Input) -> Result<Value, Faults> {
    let at = |leaf: &str| format!("/stoa-forwarder:find-routes/{leaf}");
    let prefix = |leaf: &str| match input.value(leaf) {
        None => Ok(None),
        Some(text) => match net(&text) {
            Some(net) => Ok(Some(net)),
            None => Err(Fault::value(format!("{text:?} is not a prefix: write ADDRESS/LENGTH"))
                .at(at(leaf))),
        },
    };
    let search = Search {
        table: input.value("table").unwrap_or_else(|| "ipv4-default".into()),
        prefix: prefix("prefix")?,
        after: prefix("after")?,
        limit: input.number("limit").and_then(|it| it.try_into().ok()).unwrap_or(100),
    };
    // A search reveals routes, so it needs the right to read them.
    let management = call.app.management();
    let rights = Rights::of(&call.identity, &management);
    if !may_find_routes(&rights, &search.table) {
        return Err(Fault::forbidden(at("table")).into());
    }
    let found = find_routes::find(call.app.datastore.connection(), &search).await;
    found.map_err(|error| {
        let words = error.to_string();
        match error {
            Error::NoTable(_) => Fault::nowhere(words).at(at("table")).into(),
            Error::OtherFamily(..) => Fault::value(words).at(at("prefix")).into(),
            Error::Unreachable(_) => unavailable(words),
        }
    })
}

/// Whether a client may read all that a search tells about the routes of a table: their nodes, which are of several
/// modules.
fn may_find_routes(rights: &Rights<'_>, table: &str) -> bool {
    let route = path::below(path::routes(table), "ietf-routing", "route");
    let of_route = |(module, name): (&str, &str)| path::below(route.clone(), module, name);
    rights.may_read_all(&path::routes(table))
        && nodes_of_routes(table).iter().all(|node| rights.may(Operation::Read, &of_route(*node)))
}

/// Modules and names of nodes of a route, of each module that has some.
fn nodes_of_routes(table: &str) -> [(&'static str, &'static str); 4] {
    let family = match table.starts_with("ipv6") {
        true => "ietf-ipv6-unicast-routing",
        false => "ietf-ipv4-unicast-routing",
    };
    [
        (family, "destination-prefix"),
        ("ietf-routing", "next-hop"),
        ("ietf-routing", "source-protocol"),
        ("stoa-routing", "state"),
    ]
}

fn net(text: &str) -> Option<IpNet> {
    let address = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().or_else(address)
}

fn unavailable(words: String) -> Faults {
    Fault::application(StatusCode::SERVICE_UNAVAILABLE, "operation-failed", words).into()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_denied;

    /// Whether a user may search both tables to whom one rule denies to read `path`, or all of `module`.
    fn may(module: &str, path: Option<&str>) -> [bool; 2] {
        with_denied(module, path, |rights| {
            ["ipv4-default", "ipv6-default"].map(|table| may_find_routes(rights, table))
        })
    }

    #[test]
    fn a_search_needs_the_right_to_all_that_it_tells_about_routes() {
        let rib = "/ietf-routing:routing/ribs/rib";
        assert_eq!(may("ietf-interfaces", None), [true, true]);
        assert_eq!(may("*", Some(&format!("{rib}[name='ipv4-default']"))), [false, true]);
        for below in ["routes", "routes/route", "routes/route/next-hop/outgoing-interface"] {
            assert_eq!(may("*", Some(&format!("{rib}/{below}"))), [false, false], "{below}");
        }
        let one = "routes/route[destination-prefix='10.0.0.0/8']";
        assert_eq!(may("*", Some(&format!("{rib}[name='ipv4-default']/{one}"))), [false, true]);
        assert_eq!(may("stoa-routing", None), [false, false]);
        assert_eq!(may("ietf-ipv6-unicast-routing", None), [true, false]);
    }

    #[test]
    fn nodes_of_routes_are_those_of_the_modules() {
        let route = path::below(path::routes("ipv4-default"), "ietf-routing", "route");
        for (module, name) in
            ["ipv4", "ipv6"].into_iter().flat_map(|family| nodes_of_routes(family))
        {
            let steps = path::below(route.clone(), module, name);
            let (first, below) = steps.split_first().unwrap();
            let top = path::top(&first.module, &first.name);
            let found = below.iter().try_fold(top.unwrap(), |above, step| {
                path::child(&above, &step.module, &step.name)
            });
            assert!(found.is_some(), "{module}:{name}");
        }
    }
}
