//! A configuration, or a part of it, as JSON or XML.

use serde_json::Value;
use stoa_api::v1;
use stoa_yang::error::ValidationError;
use yang5::data::{Data, DataFormat, DataImplicitFlags, DataPrinterFlags, DataTree};

use crate::datastore::Refusal;

fn failed(error: yang5::Error) -> Refusal {
    Refusal::Invalid(stoa_yang::data::internal(&error))
}

/// The requested part of a configuration.
pub(super) fn print(
    tree: &DataTree<'static>,
    request: &v1::ShowConfigurationRequest,
) -> Result<String, Refusal> {
    if !request.with_defaults {
        return print_with(tree, request, DataPrinterFlags::WD_EXPLICIT);
    }
    let mut whole = tree.duplicate().map_err(failed)?;
    whole.add_implicit(DataImplicitFlags::NO_STATE).map_err(failed)?;
    print_with(&whole, request, DataPrinterFlags::WD_ALL)
}

fn print_with(
    tree: &DataTree<'static>,
    request: &v1::ShowConfigurationRequest,
    flags: DataPrinterFlags,
) -> Result<String, Refusal> {
    let format = match request.format() {
        v1::ConfigurationFormat::Json => DataFormat::JSON,
        v1::ConfigurationFormat::Xml => DataFormat::XML,
    };
    if request.path.is_empty() {
        let text = tree.print_string(format, flags | DataPrinterFlags::WITH_SIBLINGS);
        let text = text.map_err(failed)?;
        let is_empty = text.trim().is_empty() && format == DataFormat::JSON;
        return Ok(if is_empty { "{}\n".to_owned() } else { text });
    }
    let missing = || {
        let error: Vec<ValidationError> = stoa_yang::error::one(
            &request.path,
            "nothing is configured at this path",
            "Check the path with `stoa show configuration`.",
        );
        Refusal::Invalid(error)
    };
    if request.path.contains('\0') || tree.reference().is_none() {
        return Err(missing());
    }
    if let Ok(node) = tree.find_path(&request.path) {
        return node.print_string(format, flags).map_err(failed);
    }
    // A list without its keys: all of its entries.
    let entries = tree.find_xpath(&request.path).map_err(|_| missing())?;
    let bits = flags.bits();
    let flags = || DataPrinterFlags::from_bits_truncate(bits);
    let texts = entries.map(|entry| entry.print_string(format, flags()));
    let texts = texts.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    match (texts.is_empty(), format) {
        (true, _) => Err(missing()),
        (_, DataFormat::JSON) => merged(&texts),
        _ => Ok(texts.concat()),
    }
}

/// The entries of a list, each of which is printed as a list of its own, as one list.
fn merged(entries: &[String]) -> Result<String, Refusal> {
    let mut all = serde_json::Map::new();
    for text in entries {
        let one: serde_json::Map<_, Value> = serde_json::from_str(text).map_err(|error| {
            let cause = format!("it was printed as wrong JSON: {error}");
            Refusal::Invalid(stoa_yang::error::one("/", &cause, "Please report this."))
        })?;
        for (name, entries) in one {
            match (all.get_mut(&name), entries) {
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
                (_, entries) => drop(all.insert(name, entries)),
            }
        }
    }
    Ok(format!("{:#}\n", Value::Object(all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_its_keys_is_all_of_its_entries() {
        let text = r#"{"ietf-access-control-list:acls": {"stoa-acl:flow-profile": [
            {"name": "slow"}, {"name": "quick", "timeouts": {"icmp": 30}}]}}"#;
        let tree = stoa_yang::data::parse(text).unwrap();
        let request = |format: v1::ConfigurationFormat| v1::ShowConfigurationRequest {
            path: "/ietf-access-control-list:acls/stoa-acl:flow-profile".to_owned(),
            format: format.into(),
            ..v1::ShowConfigurationRequest::default()
        };
        let json = print(&tree, &request(v1::ConfigurationFormat::Json)).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        // Ordered by the system.
        let quick = serde_json::json!({ "name": "quick", "timeouts": { "icmp": 30 } });
        let slow = serde_json::json!({ "name": "slow" });
        assert_eq!(json["stoa-acl:flow-profile"], serde_json::json!([quick, slow]));
        let xml = print(&tree, &request(v1::ConfigurationFormat::Xml)).unwrap();
        assert_eq!(xml.matches("<flow-profile").count(), 2, "{xml}");
        let none = v1::ShowConfigurationRequest {
            path: "/stoa-vrf:vrfs/vrf".to_owned(),
            ..v1::ShowConfigurationRequest::default()
        };
        assert!(print(&tree, &none).is_err());
    }
}
