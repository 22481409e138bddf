//! The fix of a reference to a zone that does not exist: the zones that do, and the command that adds one.

use yang5::data::{Data, DataTree};

use crate::libyang::{LibyangError, collect_errors};

/// Part of the path of a zone, as modules write it.
pub(crate) const ZONE: &str = "stoa-acl:zones/stoa-acl:zone/";

/// Part of the path of a zone whose flows are limited.
const LIMITS: &str = "stoa-acl:flow-limits";

/// The names of the zones of a configuration.
const NAMES: &str = "/ietf-access-control-list:acls/stoa-acl:zones/zone/name";

/// The zones of the configuration that has errors; `None`: it is not known.
pub(crate) type Zones<'a> = &'a dyn Fn() -> Option<Vec<String>>;

/// The zones of a configuration, in its order.
pub(crate) fn of(tree: &DataTree<'_>) -> Vec<String> {
    if tree.reference().is_none() {
        return Vec::new();
    }
    let find =
        || tree.find_xpath(NAMES).into_iter().flatten().filter_map(|it| it.value_canonical());
    collect_errors(|| find().collect()).0
}

/// The fix, if the error is about a zone with this name.
pub(crate) fn fix(error: &LibyangError, name: &str, zones: Zones<'_>) -> Option<String> {
    if !error.message.contains("Invalid leafref value") || !error.message.contains(ZONE) {
        return None;
    }
    let add = format!("add it by \"set acls zones zone {name} interface INTERFACE\"");
    // The router itself begins no flows.
    let is_limit = [&error.data_path, &error.schema_path].iter().any(|it| it.contains(LIMITS));
    let (or_router, use_router) = match is_limit {
        true => ("", ""),
        false => (
            " or \"router\", which is the router itself",
            " Or use \"router\", which is the router itself.",
        ),
    };
    let comma = if or_router.is_empty() { "" } else { "," };
    Some(match zones() {
        None => format!("Use a zone that exists{comma}{or_router}; or {add}."),
        Some(zones) if zones.is_empty() => format!("There are no zones yet: {add}.{use_router}"),
        Some(zones) => {
            let zones: Vec<String> = zones.iter().map(|zone| format!("\"{zone}\"")).collect();
            format!("Use {}{or_router}; or {add}.", zones.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use yang5::data::DataFormat;

    use crate::schema;

    #[test]
    fn an_unknown_zone_is_named_with_those_that_exist() {
        let zone = |name: &str| format!(r#"{{"name": "{name}"}}"#);
        let text = |zones: &[String]| {
            format!(
                r#"{{"ietf-access-control-list:acls": {{"stoa-acl:zones": {{"zone": [{}]}},
                "stoa-acl:zone-pairs": {{"zone-pair": [{{"from": "insied", "to": "router"}}]}}}}}}"#,
                zones.join(",")
            )
        };
        let add = "add it by \"set acls zones zone insied interface INTERFACE\"";
        let router = "\"router\", which is the router itself";
        for (zones, fix) in [
            (vec![], format!("There are no zones yet: {add}. Or use {router}.")),
            (
                vec![zone("inside"), zone("outside")],
                format!("Use \"inside\", \"outside\" or {router}; or {add}."),
            ),
        ] {
            let text = text(&zones);
            let tree = schema().parse(&text, DataFormat::JSON).unwrap();
            let validated = schema().validate(&tree).map(drop).unwrap_err();
            for errors in [validated, schema().errors_in(&text)] {
                let [error] = errors.as_slice() else { panic!("{errors:?}") };
                assert_eq!((&*error.cause, &error.fix), ("there is no zone \"insied\"", &fix));
                assert_eq!(error.names, ["insied"]);
            }
        }
    }
}
