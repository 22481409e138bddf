//! The schema: the standard modules and our own, compiled once by libyang.
//!
//! A text that libyang accepts has the right structure, types and references. The controller checks what YANG cannot
//! express.

use std::sync::OnceLock;

use yang5::context::{Context, ContextFlags};
use yang5::data::{
    Data, DataFormat, DataNodeRef, DataParserFlags, DataPrinterFlags, DataTree, DataValidationFlags,
};

use crate::error::ValidationError;
use crate::libyang::{ErrorCollector, LibyangError, collect_errors};
use crate::sources::{added, embedded};
use crate::zones::{self, Zones};
use crate::{fix, place, unsupported};

/// The modules that are implemented, each with its features. libyang loads their imports.
const MODULES: &[(&str, &[&str])] = &[
    ("ietf-interfaces", &["if-mib"]),
    ("ietf-ip", &[]),
    ("iana-if-type", &[]),
    ("ietf-routing", &["multiple-ribs"]),
    ("ietf-ipv4-unicast-routing", &[]),
    ("ietf-ipv6-unicast-routing", &[]),
    ("ietf-access-control-list", ACL_FEATURES),
    ("ietf-datastores", &[]),
    ("ietf-nat", &["basic-nat44", "eam", "napt44", "nat64", "nptv6", "siit"]),
    ("ietf-netconf-acm", &[]),
    ("ietf-restconf-monitoring", &[]),
    ("ietf-vrrp", &["validate-interval-errors", "validate-address-list-errors"]),
    ("ietf-yang-library", &[]),
    ("stoa-acl", &[]),
    ("stoa-annotations", &[]),
    ("stoa-bfd", &[]),
    ("stoa-datastore", &[]),
    ("stoa-flow-sync", &[]),
    ("stoa-forwarder", &[]),
    ("stoa-interfaces", &[]),
    ("stoa-ip", &[]),
    ("stoa-ipfix", &[]),
    ("stoa-ipsec", &[]),
    ("stoa-logging", &[]),
    ("stoa-login", &[]),
    ("stoa-management", &[]),
    ("stoa-host-interface", &[]),
    ("stoa-nat", &[]),
    ("stoa-policy", &[]),
    ("stoa-routing", &[]),
    ("stoa-system", &[]),
    ("stoa-vrf", &[]),
];

/// Matches on frames (`eth`) and counters by interface are not among them.
const ACL_FEATURES: &[&str] = &[
    "match-on-ipv4",
    "match-on-ipv6",
    "match-on-tcp",
    "match-on-udp",
    "match-on-icmp",
    "ipv4",
    "ipv6",
    "acl-aggregate-stats",
    "interface-attachment",
];

/// Report all errors, not the first alone.
const ALL_ERRORS: DataValidationFlags =
    DataValidationFlags::from_bits_retain(yang5::ffi::LYD_VALIDATE_MULTI_ERROR);

/// The compiled schema. There is one in a process.
#[derive(Debug)]
pub struct Schema {
    context: Context,
}

/// A configuration of valid shape.
#[derive(Debug)]
pub struct Valid<'a> {
    /// Its data with every default filled in and every value in its canonical form.
    pub tree: DataTree<'a>,
    /// Data path and schema path of each explicit node (not a default) that may be unsupported.
    pub given: Vec<(String, String)>,
}

/// The schema of this program.
///
/// # Panics
/// When the embedded modules do not compile; a test of this file compiles them.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::compile().expect("the embedded YANG modules compile"))
}

impl Schema {
    fn compile() -> Result<Schema, yang5::Error> {
        let flags = ContextFlags::NO_YANGLIBRARY
            | ContextFlags::DISABLE_SEARCHDIRS
            | ContextFlags::DISABLE_SEARCHDIR_CWD;
        let mut context = Context::new(flags)?;
        // Fails when the process has a logger already. Then each call reports its last error only.
        let _ = context.init_logger(ErrorCollector);
        context.set_embedded_modules(embedded());
        let added = added().iter().map(|module| (module.name, module.features));
        let modules = MODULES.iter().copied().chain(added);
        let modules: Vec<_> = modules.map(|(name, features)| (name, None, features)).collect();
        context.load_modules(&modules)?;
        Ok(Schema { context })
    }

    /// The compiled modules, for look-ups by path.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Parses a configuration without validating it as a whole; see [`Self::validate`].
    ///
    /// # Errors
    /// All errors in its values, each with its fix.
    ///
    /// # Panics
    /// When the text holds a zero character.
    pub fn parse(
        &self,
        text: &str,
        format: DataFormat,
    ) -> Result<DataTree<'_>, Vec<ValidationError>> {
        let flags =
            DataParserFlags::STRICT | DataParserFlags::NO_STATE | DataParserFlags::NO_VALIDATION;
        let parse = || DataTree::parse_string(&self.context, text, format, flags, ALL_ERRORS);
        let (parsed, mut errors) = collect_errors(parse);
        place::complete(text, &mut errors);
        check(&self.context, parsed, errors, &|| None)
    }

    /// All errors of a text of RFC 7951 encoding, in its values and of the whole, with line numbers.
    pub fn errors_in(&self, text: &str) -> Vec<ValidationError> {
        let parser = DataParserFlags::STRICT | DataParserFlags::NO_STATE;
        let validation = DataValidationFlags::NO_STATE | ALL_ERRORS;
        let parse =
            || DataTree::parse_string(&self.context, text, DataFormat::JSON, parser, validation);
        let (parsed, mut errors) = collect_errors(parse);
        place::complete(text, &mut errors);
        let zones = || self.parse(text, DataFormat::JSON).ok().map(|tree| zones::of(&tree));
        check(&self.context, parsed, errors, &zones).err().unwrap_or_default()
    }

    /// Validates a parsed configuration. Works on a copy, since libyang adds every default.
    ///
    /// # Errors
    /// All errors that libyang finds in one pass, each with its fix.
    pub fn validate<'a>(&'a self, given: &DataTree<'a>) -> Result<Valid<'a>, Vec<ValidationError>> {
        let validate = || {
            let mut tree = given.duplicate()?;
            tree.validate(DataValidationFlags::NO_STATE | ALL_ERRORS).map(|()| tree)
        };
        let (validated, errors) = collect_errors(validate);
        let tree = check(&self.context, validated, errors, &|| Some(zones::of(given)))?;
        let given = watched(&tree);
        Ok(Valid { tree, given })
    }

    /// Parses operational state that this program made, in RFC 7951 encoding. Checks structure and types, but not
    /// constraints, which operational state may violate (RFC 8342, section 5.3).
    ///
    /// # Errors
    /// The first error of libyang, which is a bug of this program.
    pub fn state(&self, text: &str) -> Result<DataTree<'_>, String> {
        let parser = DataParserFlags::STRICT | DataParserFlags::NO_VALIDATION;
        let validation = DataValidationFlags::empty();
        let (parsed, errors) = collect_errors(|| {
            DataTree::parse_string(&self.context, text, DataFormat::JSON, parser, validation)
        });
        parsed.map_err(|error| match errors.first() {
            Some(first) => format!("{} ({})", first.message, first.data_path),
            None => error.to_string(),
        })
    }
}

/// The tree, unless libyang reported errors.
fn check<'a>(
    context: &Context,
    result: Result<DataTree<'a>, yang5::Error>,
    errors: Vec<LibyangError>,
    zones: Zones<'_>,
) -> Result<DataTree<'a>, Vec<ValidationError>> {
    match result {
        Ok(tree) if errors.is_empty() => Ok(tree),
        Ok(_) => Err(fix::errors(context, &errors, zones)),
        Err(error) => Err(fix::of_call(context, &error, &errors, zones)),
    }
}

/// Containers that [`watched`] skips: they may hold a million nodes, all of them supported.
const MANY: &[&str] = &["static-routes"];

/// A leaf that is true by default (RFC 8344, section 4) and that Stoa does not support: only an explicit `true` is
/// an error.
const TRUE_BY_DEFAULT: &str = "create-global-addresses";

/// Whether the configuration sets the node to `true`.
fn is_explicitly_on(node: &DataNodeRef<'_>) -> bool {
    let is_on = node.value_canonical().as_deref() == Some("true");
    // WD_EXPLICIT omits nodes that libyang added as defaults.
    let text = node.print_string(DataFormat::JSON, DataPrinterFlags::WD_EXPLICIT);
    is_on && text.is_ok_and(|text| text.contains(TRUE_BY_DEFAULT))
}

/// The explicit nodes that may be unsupported. Making their paths is the expensive part, so other nodes have none.
fn watched(tree: &DataTree<'_>) -> Vec<(String, String)> {
    let mut watched = Vec::new();
    let top = tree.reference().into_iter().flat_map(|first| first.inclusive_siblings());
    let mut pending: Vec<_> = top.map(|node| (node, false)).collect();
    pending.reverse();
    while let Some((node, is_inside)) = pending.pop() {
        let schema = node.schema();
        if MANY.contains(&schema.name()) {
            continue;
        }
        let is_watched = is_inside || unsupported::is_named(schema.name());
        let is_given = match schema.name() == TRUE_BY_DEFAULT {
            true => is_explicitly_on(&node),
            false => !node.is_default() && !schema.is_np_container(),
        };
        if is_given && is_watched {
            watched.push((node.path(), schema.path(yang5::schema::SchemaPathFormat::DATA)));
        }
        let first = pending.len();
        pending.extend(node.children().map(|child| (child, is_watched)));
        pending[first..].reverse();
    }
    watched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(text: &str) -> Result<Valid<'static>, Vec<ValidationError>> {
        schema().validate(&schema().parse(text, DataFormat::JSON)?)
    }

    #[test]
    fn modules_compile_and_defaults_are_filled_in() {
        let valid = valid("{}").unwrap();
        let system = valid.tree.find_path("/stoa-system:system/workers/polling").unwrap();
        assert_eq!(system.value_canonical().as_deref(), Some("adaptive"));
        assert!(valid.given.is_empty(), "{:?}", valid.given);
    }

    #[test]
    fn autoconf_is_reported_only_where_it_is_true() {
        let given = |autoconf: &str| {
            let text = format!(
                r#"{{"ietf-interfaces:interfaces": {{"interface": [{{"name": "a",
                "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {{"null": {{}}}},
                "ietf-ip:ipv6": {{"autoconf": {{{autoconf}}}}}}}]}}}}"#
            );
            let valid = valid(&text).unwrap();
            valid.given.iter().filter(|(path, _)| path.contains("autoconf")).count()
        };
        assert_eq!(given(""), 0);
        assert_eq!(given(r#""create-global-addresses": false"#), 0);
        assert_eq!(given(r#""create-global-addresses": true"#), 1);
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let text = r#"{"stoa-system:system": {"workers": {"count": 0, "polling": "often"}}}"#;
        let errors = schema().errors_in(text);
        assert_eq!(errors.len(), 2, "{errors:#?}");
        assert_eq!(errors[0].path, "/stoa-system:system/workers/count");
        assert_eq!(errors[1].path, "/stoa-system:system/workers/polling");
    }
}
