//! Operations that search long tables: routes, flows, and what address translation has in use. Each needs the right to
//! read what it returns.

use http::StatusCode;
use ipnet::IpNet;
use serde_json::Value;
use stoa_controller::find_routes::{self, Error, Search};
use stoa_controller::{find_flows, find_translations};

use super::call::Call;
use super::fault::{Fault, Faults};
use super::operation::Input;
use super::path::{self, Step};
use crate::nacm::{Operation, Rights};

/// Rows of a list unless requested otherwise.
const ROWS: usize = 100;

/// An answer of a router whose forwarder does not answer.
pub(super) fn unavailable(words: String) -> Faults {
    Fault::application(StatusCode::SERVICE_UNAVAILABLE, "operation-failed", words).into()
}

/// Most rows of each list.
fn limit(input: &Input) -> usize {
    input.number("limit").and_then(|it| it.try_into().ok()).unwrap_or(ROWS)
}

/// The prefix of a leaf. An address is one of full length.
fn prefix(input: &Input, leaf: &str) -> Result<Option<IpNet>, Faults> {
    let Some(text) = input.value(leaf) else { return Ok(None) };
    let found = net(&text).map(Some);
    let at = format!("/{}:{}/{leaf}", input.module, input.name);
    let wrong = || Fault::value(format!("{text:?} is not a prefix: write ADDRESS/LENGTH")).at(at);
    found.ok_or_else(|| wrong().into())
}

/// Checks that a VRF exists.
fn vrf(call: &Call, input: &Input) -> Result<Option<String>, Faults> {
    let Some(name) = input.value("vrf") else { return Ok(None) };
    let configuration = call.app.datastore.connection().configuration();
    let is_known =
        configuration.is_some_and(|it| it.desired.vrfs.iter().any(|vrf| vrf.name == name));
    match is_known || name == "default" {
        true => Ok(Some(name)),
        false => {
            let at = format!("/{}:{}/vrf", input.module, input.name);
            Err(Fault::value(format!("there is no VRF {name:?}")).at(at).into())
        }
    }
}

/// The steps to the flows of stateful rules.
fn flows() -> Vec<Step> {
    let acls = path::below(Vec::new(), "ietf-access-control-list", "acls");
    path::below(acls, "stoa-acl", "flows")
}

/// The steps to address translation.
fn nat() -> Vec<Step> {
    path::below(Vec::new(), "ietf-nat", "nat")
}

/// `stoa-acl:find-flows`.
pub async fn find_flows(call: &Call, input: &Input) -> Result<Value, Faults> {
    let management = call.app.management();
    if !Rights::of(&call.identity, &management).may_read_all(&flows()) {
        return Err(Fault::forbidden("/stoa-acl:find-flows").into());
    }
    let search = find_flows::Search {
        prefix: prefix(input, "prefix")?,
        port: input.number("port").and_then(|it| it.try_into().ok()),
        protocol: input.value("protocol"),
        vrf: vrf(call, input)?,
        states: input.values("state"),
        is_by_rate: input.value("order").as_deref() == Some("rate"),
        limit: limit(input),
    };
    let found = find_flows::find(call.app.datastore.connection(), &search).await;
    found.map_err(|error| {
        let (words, at) = (error.to_string(), "/stoa-acl:find-flows");
        match error {
            find_flows::Error::NoProtocol(_) => {
                Fault::value(words).at(format!("{at}/protocol")).into()
            }
            find_flows::Error::Invalid(_) => Fault::value(words).at(at).into(),
            find_flows::Error::Unreachable(_) => unavailable(words),
        }
    })
}

/// `stoa-nat:find-translations`.
pub async fn find_translations(call: &Call, input: &Input) -> Result<Value, Faults> {
    let management = call.app.management();
    if !Rights::of(&call.identity, &management).may_read_all(&nat()) {
        return Err(Fault::forbidden("/stoa-nat:find-translations").into());
    }
    let search = find_translations::Search {
        prefix: prefix(input, "prefix")?,
        vrf: vrf(call, input)?,
        is_leased: input.value("leased").as_deref() == Some("true"),
        limit: limit(input),
    };
    let found = find_translations::find(call.app.datastore.connection(), &search).await;
    found.map_err(|status| {
        unavailable(format!("the forwarder does not answer: {}", status.message()))
    })
}

/// `stoa-forwarder:find-routes`.
pub async fn find_routes(call: &Call, input: &Input) -> Result<Value, Faults> {
    let at = |leaf: &str| format!("/stoa-forwarder:find-routes/{leaf}");
    let search = Search {
        table: input.value("table").unwrap_or_else(|| "ipv4-default".into()),
        prefix: prefix(input, "prefix")?,
        after: prefix(input, "after")?,
        limit: limit(input),
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
    fn flows_and_translations_need_the_right_to_all_of_them() {
        let may = |module: &str, path: Option<&str>| {
            with_denied(module, path, |rights| {
                [flows(), nat()].map(|steps| rights.may_read_all(&steps))
            })
        };
        assert_eq!(may("ietf-interfaces", None), [true, true]);
        let acls = "/ietf-access-control-list:acls";
        assert_eq!(may("*", Some(acls)), [false, true]);
        assert_eq!(may("*", Some(&format!("{acls}/stoa-acl:flows"))), [false, true]);
        assert_eq!(may("*", Some(&format!("{acls}/acl"))), [true, true]);
        assert_eq!(may("stoa-acl", None), [false, true]);
        let table = "/ietf-nat:nat/instances/instance/mapping-table";
        assert_eq!(may("*", Some(table)), [true, false]);
        for steps in [flows(), nat()] {
            let names: Vec<_> =
                steps.iter().map(|step| format!("{}:{}", step.module, step.name)).collect();
            assert!(path::parse(&names.join("/")).is_ok_and(|it| it.steps == steps));
        }
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
