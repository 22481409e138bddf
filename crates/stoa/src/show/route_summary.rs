//! How many routes there are: by VRF, family and protocol.

use std::collections::BTreeMap;
use std::io::Write;

use comfy_table::Cell;
use serde_json::{Value, json};
use stoa_api::v1::{CountRoutesRequest, Protocol, RouteCount};

use super::route_query::RouteQuery;
use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the numbers and prints them. Without a destination the router counts, else this command.
pub async fn show(
    client: &mut Client,
    query: &RouteQuery<'_>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let request = query.request()?;
    let mut counts = match query.to.is_some() || query.inactive {
        true => {
            let mut counts = BTreeMap::new();
            let mut routes = client.show_routes(request).await?.into_inner();
            while let Some(state) = routes.message().await? {
                let route = state.route.unwrap_or_default();
                let bytes = route.prefix.as_ref().map_or(4, |prefix| prefix.address.len());
                let family = if bytes == 4 { 4 } else { 6 };
                *counts.entry((route.vrf, family, route.protocol)).or_default() += 1;
            }
            let of =
                |((vrf, family, protocol), routes)| RouteCount { vrf, family, protocol, routes };
            counts.into_iter().map(of).collect()
        }
        false => client.count_routes(CountRoutesRequest {}).await?.into_inner().counts,
    };
    counts.retain(|it| is_selected(it, query));
    counts.sort_by(|one, other| {
        (&one.vrf, one.family, one.protocol).cmp(&(&other.vrf, other.family, other.protocol))
    });
    match as_json {
        true => {
            writeln!(out, "{}", json!({ "counts": counts.iter().map(json).collect::<Vec<_>>() }))?
        }
        false if counts.is_empty() => writeln!(out, "{}", query.empty_message())?,
        false => print(&counts, out)?,
    }
    Ok(())
}

fn is_selected(it: &RouteCount, query: &RouteQuery<'_>) -> bool {
    it.routes > 0
        && (query.vrf == "all" || it.vrf == query.vrf)
        && (query.family == 0 || it.family == query.family)
        && query.protocol.is_none_or(|protocol| protocol == it.protocol())
}

fn vrf(it: &RouteCount) -> &str {
    if it.vrf.is_empty() { "default" } else { &it.vrf }
}

fn json(it: &RouteCount) -> Value {
    json!({ "vrf": vrf(it), "family": it.family, "protocol": it.protocol().to_string(), "routes": it.routes })
}

fn print(counts: &[RouteCount], out: &mut dyn Write) -> Result<(), Failure> {
    let mut shown = table(&["vrf", "family", "from", ">routes"]);
    for it in counts {
        let from: Protocol = it.protocol();
        shown.add_row(vec![
            Cell::new(vrf(it)),
            Cell::new(format!("IPv{}", it.family)),
            Cell::new(from.to_string()),
            count(it.routes),
        ]);
    }
    let total: u64 = counts.iter().map(|it| it.routes).sum();
    shown.add_row(vec![Cell::new("all"), Cell::new("-"), Cell::new("-"), count(total)]);
    write(&shown, out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_selected_and_added_up() {
        let of = |vrf: &str, family, protocol: Protocol, routes| RouteCount {
            vrf: vrf.into(),
            family,
            protocol: protocol.into(),
            routes,
        };
        let query = RouteQuery { to: None, family: 4, vrf: "all", inactive: false, protocol: None };
        let all = [
            of("", 4, Protocol::Direct, 6),
            of("red", 4, Protocol::Bgp, 1_000),
            of("red", 6, Protocol::Bgp, 5),
            of("red", 4, Protocol::Static, 0),
        ];
        let selected: Vec<_> = all.into_iter().filter(|it| is_selected(it, &query)).collect();
        let mut out = Vec::new();
        print(&selected, &mut out).unwrap_or_else(|_| panic!("not written"));
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("default   IPv4     direct        6\n"), "{text}");
        assert!(
            text.contains(
                "red       IPv4     bgp       1,000\nall       -        -         1,006\n"
            ),
            "{text}"
        );
        assert_eq!(json(&selected[1])["routes"], 1_000);
    }
}
