//! Data trees as texts of a configuration: RFC 7951 encoding without defaults.

use yang5::data::{
    Data, DataDiff, DataDiffFlags, DataFormat, DataParserFlags, DataPrinterFlags, DataTree,
    DataValidationFlags,
};

use crate::error::{ValidationError, one};
use crate::fix;
use crate::libyang::{LibyangError, collect_errors};
use crate::schema::schema;

/// Parses a text in RFC 7951 encoding without validating it as a whole.
///
/// # Errors
/// The errors of libyang.
pub fn parse(text: &str) -> Result<DataTree<'static>, Vec<ValidationError>> {
    if text.contains('\0') {
        return Err(one("/", "the text holds a zero character", "Remove it."));
    }
    let flags =
        DataParserFlags::NO_VALIDATION | DataParserFlags::STRICT | DataParserFlags::NO_STATE;
    let none = DataValidationFlags::empty();
    let parse = || DataTree::parse_string(schema().context(), text, DataFormat::JSON, flags, none);
    let (tree, errors) = collect_errors(parse);
    tree.map_err(|error| invalid(&error, &errors))
}

/// The text of a configuration file.
///
/// # Errors
/// When libyang cannot print it.
pub fn print(tree: &DataTree<'_>) -> Result<String, Vec<ValidationError>> {
    let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::WD_EXPLICIT;
    match tree.print_string(DataFormat::JSON, flags) {
        Ok(text) if text.is_empty() => Ok("{}\n".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(internal(&error)),
    }
}

/// The difference of two trees as a text for [`apply_difference`]. Both have the containers of what they lack.
///
/// # Errors
/// When libyang cannot compare or print them.
pub fn difference(
    old: &DataTree<'static>,
    new: &DataTree<'static>,
) -> Result<String, Vec<ValidationError>> {
    let difference = old.diff(new, DataDiffFlags::DEFAULTS).map_err(|error| internal(&error))?;
    let flags = DataPrinterFlags::WITH_SIBLINGS
        | DataPrinterFlags::WD_ALL
        | DataPrinterFlags::KEEP_EMPTY_CONT
        | DataPrinterFlags::SHRINK;
    match difference.print_string(DataFormat::JSON, flags) {
        Ok(text) if text.is_empty() => Ok("{}".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(internal(&error)),
    }
}

/// Applies the text of a difference.
///
/// # Errors
/// When it cannot be read or does not fit the tree, which may have a part of it then.
pub fn apply_difference(
    tree: &mut DataTree<'static>,
    difference: &str,
) -> Result<(), Vec<ValidationError>> {
    let flags =
        DataParserFlags::NO_VALIDATION | DataParserFlags::STRICT | DataParserFlags::NO_STATE;
    let none = DataValidationFlags::empty();
    let (context, format) = (schema().context(), DataFormat::JSON);
    let parse = || DataDiff::parse_string(context, difference, format, flags, none);
    let (parsed, errors) = collect_errors(parse);
    let parsed = parsed.map_err(|error| invalid(&error, &errors))?;
    add_containers(tree, &parsed);
    let (applied, errors) = collect_errors(|| tree.diff_apply(&parsed));
    applied.map_err(|error| invalid(&error, &errors))
}

/// Adds the containers that a difference leads through: a text does not have those that are empty.
fn add_containers(tree: &mut DataTree<'static>, difference: &DataDiff<'_>) {
    let tops = difference.tree().reference().into_iter().flat_map(|it| it.inclusive_siblings());
    let mut pending: Vec<_> = tops.collect();
    while let Some(node) = pending.pop() {
        let operation = node.meta().find(|meta| meta.name() == "operation");
        if operation.is_some_and(|meta| meta.value() != "none") {
            continue;
        }
        if node.schema().is_np_container() {
            let path = node.path();
            // Refused where the list entry above it is missing: then the difference does not fit.
            let _ = collect_errors(|| {
                let is_there = tree.find_path(&path).is_ok();
                if is_there { Ok(()) } else { tree.new_path(&path, None, false).map(drop) }
            });
        }
        pending.extend(node.children());
    }
}

/// The errors that libyang reported for data of a client.
pub fn invalid(error: &yang5::Error, reported: &[LibyangError]) -> Vec<ValidationError> {
    fix::of_call(schema().context(), error, reported, &|| None)
}

/// An internal error of libyang.
pub fn internal(error: &yang5::Error) -> Vec<ValidationError> {
    let cause = format!("an internal error of the YANG library (code {})", error.errcode);
    one("/", cause, "Report this with the configuration: it is a bug of Stoa.")
}

/// What libyang reported while a client's data was used, as validation errors.
pub fn errors(reported: &[LibyangError]) -> Vec<ValidationError> {
    fix::errors(schema().context(), reported, &|| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_value_has_an_example_also_as_a_key() {
        let fix = |path: &str, value: Option<&str>| {
            let mut tree = parse("{}").unwrap();
            let (made, errors) = collect_errors(|| tree.new_path(path, value, false).map(drop));
            invalid(&made.unwrap_err(), &errors)[0].fix.clone()
        };
        let lan = "/ietf-interfaces:interfaces/interface[name='lan']";
        let address = format!("{lan}/ietf-ip:ipv4/address[ip='fd00::1']");
        assert_eq!(fix(&address, None), "Write an IPv4 address such as 10.0.0.1.");
        assert_eq!(fix(&format!("{lan}/enabled"), Some("no")), "Write true or false.");
        let matches = "/ietf-access-control-list:acls/acl[name='a']/aces/ace[name='b']/matches";
        let four = |leaf: &str, value| fix(&format!("{matches}/ipv4/{leaf}"), Some(value));
        assert_eq!(four("protocol", "tcp"), "Write 6 for tcp.");
        assert_eq!(four("dscp", "ef"), "Write 46 for ef.");
        let network = four("source-ipv4-network", "10.0.0.1");
        assert_eq!(network, "Write the length, too: 10.0.0.1/32 is this address alone.");
        let port = fix(&format!("{matches}/tcp/destination-port/port"), Some("ssh"));
        assert_eq!(port, "Write 22 for ssh.");
        let flags = fix(&format!("{matches}/tcp/stoa-acl:tcp-flags/set"), Some("syn,ack"));
        assert!(flags.contains("Allowed: fin, syn, rst, psh, ack"), "{flags}");
    }

    #[test]
    fn the_text_of_a_difference_makes_the_new_tree() {
        let rule = |name: &str, action: &str| {
            format!(r#"{{"name": "{name}", "action": "{action}", "comment": "{name}"}}"#)
        };
        let rules = |rules: &[String]| {
            format!(
                r#"{{"ietf-netconf-acm:nacm": {{"rule-list": [{{"name": "x", "rule": [{}]}}]}}}}"#,
                rules.join(",")
            )
        };
        let interface = |rest: &str| {
            format!(
                r#"{{"ietf-interfaces:interfaces": {{"interface": [{{"name": "a'b",
                "type": "iana-if-type:ethernetCsmacd" {rest}}}]}}}}"#
            )
        };
        let texts = [
            "{}".to_owned(),
            rules(&[rule("a", "deny"), rule("b", "permit"), rule("c", "deny")]),
            rules(&[rule("c", "permit"), rule("a", "deny"), rule("d", "deny")]),
            interface(""),
            interface(r#", "description": "one", "stoa-interfaces:port": {"null": {}}"#),
            interface(
                r#", "description": "\"two\" é", "ietf-ip:ipv4": {"address":
                [{"ip": "10.0.0.1", "prefix-length": 24}]}, "stoa-interfaces:port": {"null": {}}"#,
            ),
        ];
        for old in &texts {
            for new in &texts {
                let (mut from, to) = (parse(old).unwrap(), parse(new).unwrap());
                let difference = difference(&from, &to).unwrap();
                apply_difference(&mut from, &difference).unwrap();
                assert_eq!(print(&from).unwrap(), print(&to).unwrap(), "{difference}");
            }
        }
        // The text of a tree does not have empty containers, which the difference leads through.
        let empty = || parse(r#"{"ietf-interfaces:interfaces": {}}"#).unwrap();
        let [mut bare, to] = [&texts[0], &texts[4]].map(|text| parse(text).unwrap());
        let difference = difference(&empty(), &to).unwrap();
        apply_difference(&mut bare, &difference).unwrap();
        assert_eq!(print(&bare).unwrap(), print(&to).unwrap());
        let mut tree = parse("{}").unwrap();
        for wrong in ["", "{", "nonsense", "{\"a\": 1}"] {
            assert!(apply_difference(&mut tree, wrong).is_err(), "{wrong}");
        }
    }
}
