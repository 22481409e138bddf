//! The schema: the standard modules and our own, compiled once by libyang.
//!
//! First route source of an intention: a text that gets through here has the right
//! shape, types and references. What YANG cannot say is checked after it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::OnceLock;

use yang5::context::{Context, ContextFlags, EmbeddedModuleKey, EmbeddedModules};
use yang5::data::{
    Data, DataFormat, DataNodeRef, DataParserFlags, DataPrinterFlags, DataTree, DataValidationFlags,
};
use yang5::logging::LogCallback;

use crate::error::ValidationError;
use crate::fix;
use crate::place;
use crate::unsupported;

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The modules that are implemented, each with its features; what they import comes by itself.
const MODULES: &[(&str, &[&str])] = &[
    ("ietf-interfaces", &["if-mib"]),
    ("ietf-ip", &[]),
    ("iana-if-type", &[]),
    ("ietf-routing", &["multiple-ribs"]),
    ("ietf-ipv4-unicast-routing", &[]),
    ("ietf-ipv6-unicast-routing", &[]),
    ("ietf-datastores", &[]),
    ("ietf-netconf-acm", &[]),
    ("ietf-restconf-monitoring", &[]),
    ("ietf-vrrp", &["validate-interval-errors", "validate-address-list-errors"]),
    ("ietf-yang-library", &[]),
    ("stoa-bfd", &[]),
    ("stoa-datastore", &[]),
    ("stoa-forwarder", &[]),
    ("stoa-interfaces", &[]),
    ("stoa-ip", &[]),
    ("stoa-logging", &[]),
    ("stoa-management", &[]),
    ("stoa-host-interface", &[]),
    ("stoa-policy", &[]),
    ("stoa-routing", &[]),
    ("stoa-system", &[]),
    ("stoa-vrf", &[]),
];

/// Submodules and the module that they belong to.
pub const SUBMODULES: &[(&str, &str)] =
    &[("ietf-ipv6-router-advertisements", "ietf-ipv6-unicast-routing")];

/// Every fault at once, not the first alone.
const EVERY_FAULT: DataValidationFlags =
    DataValidationFlags::from_bits_retain(yang5::ffi::LYD_VALIDATE_MULTI_ERROR);

/// Complaints of libyang that one look keeps.
const COMPLAINT_LIMIT: usize = 1_000;

/// The compiled schema. There is one in a process.
#[derive(Debug)]
pub struct Schema {
    context: Context,
}

/// A configuration of valid shape.
#[derive(Debug)]
pub struct Valid {
    /// RFC 7951 encoding with every default filled in and every value in its
    /// canonical form.
    pub text: String,
    /// Data path and schema path of each node that was given, not defaulted, and may be
    /// unsupported.
    pub given: Vec<(String, String)>,
}

/// What libyang says about one fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaint {
    /// In libyang's words.
    pub message: String,
    /// Where in the data; may be empty.
    pub data_path: String,
    /// Where in the schema; may be empty.
    pub schema_path: String,
    /// Line of the text; 0 when unknown.
    pub line: u64,
}

thread_local! {
    /// Complaints on this thread since the last look. libyang calls back on the
    /// thread that parses, so one look never sees another's.
    static COMPLAINTS: RefCell<Vec<Complaint>> = const { RefCell::new(Vec::new()) };
}

struct Listener;

impl LogCallback for Listener {
    fn log<'a>(
        &'a self,
        level: yang5::ffi::LY_LOG_LEVEL::Type,
        message: Option<Cow<'a, str>>,
        data_path: Option<Cow<'a, str>>,
        schema_path: Option<Cow<'a, str>>,
        line: u64,
    ) {
        if level != yang5::ffi::LY_LOG_LEVEL::LY_LLERR {
            return;
        }
        COMPLAINTS.with_borrow_mut(|complaints| {
            if complaints.len() < COMPLAINT_LIMIT {
                complaints.push(Complaint {
                    message: message.unwrap_or_default().into_owned(),
                    data_path: data_path.unwrap_or_default().into_owned(),
                    schema_path: schema_path.unwrap_or_default().into_owned(),
                    line,
                });
            }
        });
    }
}

/// The schema of this program.
///
/// # Panics
/// When the modules that were built in do not compile: a test of the build
/// catches that before an operator can.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::compile().expect("the YANG modules built in compile"))
}

/// The modules that were built in, each with its text.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES.iter().copied()
}

/// The text of a module that was built in.
pub fn source(module: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(name, _)| *name == module).map(|(_, text)| *text)
}

/// What libyang complains about while `act` runs.
pub fn listen<T>(act: impl FnOnce() -> T) -> (T, Vec<Complaint>) {
    COMPLAINTS.with_borrow_mut(Vec::clear);
    let done = act();
    (done, COMPLAINTS.with_borrow_mut(std::mem::take))
}

fn embedded() -> &'static EmbeddedModules {
    static EMBEDDED: OnceLock<EmbeddedModules> = OnceLock::new();
    EMBEDDED.get_or_init(|| {
        let key = |name: &'static str| {
            let revision = source(name).and_then(revision);
            match SUBMODULES.iter().find(|(submodule, _)| *submodule == name) {
                Some((_, module)) => EmbeddedModuleKey::new(module, None, Some(name), revision),
                None => EmbeddedModuleKey::new(name, revision, None, None),
            }
        };
        SOURCES.iter().map(|(name, text)| (key(name), *text)).collect()
    })
}

/// The newest revision that a module states; they stand newest first.
fn revision(text: &'static str) -> Option<&'static str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("revision "))?;
    let date = line.split_whitespace().next()?;
    Some(date.trim_matches(|letter| matches!(letter, '"' | '\'' | '{' | ';')))
}

impl Schema {
    fn compile() -> Result<Schema, yang5::Error> {
        let flags = ContextFlags::NO_YANGLIBRARY
            | ContextFlags::DISABLE_SEARCHDIRS
            | ContextFlags::DISABLE_SEARCHDIR_CWD;
        let mut context = Context::new(flags)?;
        // Somebody else in the process may listen already; then only the last
        // complaint of a look is known, which is still an error.
        let _ = context.init_logger(Listener);
        context.set_embedded_modules(embedded());
        let modules: Vec<_> =
            MODULES.iter().map(|(name, features)| (*name, None, *features)).collect();
        context.load_modules(&modules)?;
        Ok(Schema { context })
    }

    /// The compiled modules, for look-ups by path.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Reads configuration from the root on as it is given; the whole is for [`Self::validate`].
    ///
    /// # Errors
    /// Every fault of its values that libyang can see in one look, each with its fix.
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
        let parse = || DataTree::parse_string(&self.context, text, format, flags, EVERY_FAULT);
        let (parsed, mut complaints) = listen(parse);
        place::complete(text, &mut complaints);
        self.judge(parsed, complaints)
    }

    /// Every fault in a text of RFC 7951 encoding: of its values and of the whole, with their lines.
    pub fn faults(&self, text: &str) -> Vec<ValidationError> {
        let parser = DataParserFlags::STRICT | DataParserFlags::NO_STATE;
        let validation = DataValidationFlags::NO_STATE | EVERY_FAULT;
        let parse =
            || DataTree::parse_string(&self.context, text, DataFormat::JSON, parser, validation);
        let (parsed, mut complaints) = listen(parse);
        place::complete(text, &mut complaints);
        self.judge(parsed, complaints).err().unwrap_or_default()
    }

    /// Validates a configuration that was read: a copy of it, since every default is filled in.
    ///
    /// # Errors
    /// Every fault that libyang can see in one look, each with its fix.
    pub fn validate(&self, given: &DataTree<'_>) -> Result<Valid, Vec<ValidationError>> {
        let validate = || {
            let mut tree = given.duplicate()?;
            tree.validate(DataValidationFlags::NO_STATE | EVERY_FAULT).map(|()| tree)
        };
        let (validated, complaints) = listen(validate);
        let tree = self.judge(validated, complaints)?;
        Ok(Valid { text: self.print(&tree)?, given: watched(&tree) })
    }

    /// What libyang made, when it has nothing against it.
    fn judge<'a>(
        &self,
        made: Result<DataTree<'a>, yang5::Error>,
        mut complaints: Vec<Complaint>,
    ) -> Result<DataTree<'a>, Vec<ValidationError>> {
        match made {
            Ok(tree) if complaints.is_empty() => Ok(tree),
            Ok(_) => Err(fix::errors(self, &complaints)),
            Err(error) => {
                if complaints.is_empty() {
                    complaints.push(Complaint {
                        message: error.msg.clone().unwrap_or_else(|| error.to_string()),
                        data_path: error.path.clone().unwrap_or_default(),
                        ..Complaint::default()
                    });
                }
                Err(fix::errors(self, &complaints))
            }
        }
    }

    /// The tree of state that this program made itself, in RFC 7951 encoding. Structure and
    /// types are checked; what RFC 8342 (section 5.3) lets state lack, such as mandatory nodes, is not.
    ///
    /// # Errors
    /// What libyang says: a fault of the program.
    pub fn state(&self, text: &str) -> Result<DataTree<'_>, String> {
        COMPLAINTS.with_borrow_mut(Vec::clear);
        let parser = DataParserFlags::STRICT | DataParserFlags::NO_VALIDATION;
        let validation = DataValidationFlags::empty();
        let parsed =
            DataTree::parse_string(&self.context, text, DataFormat::JSON, parser, validation);
        let complaints = COMPLAINTS.with_borrow_mut(std::mem::take);
        parsed.map_err(|error| match complaints.first() {
            Some(first) => format!("{} ({})", first.message, first.data_path),
            None => error.to_string(),
        })
    }

    fn print(&self, tree: &DataTree<'_>) -> Result<String, Vec<ValidationError>> {
        let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::WD_ALL;
        match tree.print_string(DataFormat::JSON, flags) {
            Ok(text) if text.is_empty() => Ok("{}".to_owned()),
            Ok(text) => Ok(text),
            Err(error) => Err(crate::error::one(
                "/",
                format!("the configuration cannot be printed again: {error}"),
                "Report this with the configuration: it is a fault of the program.",
            )),
        }
    }
}

/// Not walked: there may be a million nodes below, and each is supported.
const MANY: &[&str] = &["static-routes"];

/// On by default in the standard module, and never on here: to say "off" is to agree, and
/// only to say "on" is to ask for it (RFC 8344, section 4).
const ON_BY_DEFAULT: &str = "create-global-addresses";

/// Whether the node is `true` because the configuration says so, not by its default.
fn is_said_to_be_on(node: &DataNodeRef<'_>) -> bool {
    let is_on = node.value_canonical().as_deref() == Some("true");
    // Alone in print only when it was given: that mode leaves out what was filled in.
    let text = node.print_string(DataFormat::JSON, DataPrinterFlags::WD_EXPLICIT);
    is_on && text.is_ok_and(|text| text.contains(ON_BY_DEFAULT))
}

/// Walks the tree without what is many; only what may be unsupported is told, for paths cost more than all else here.
fn watched(tree: &DataTree<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let top = tree.reference().into_iter().flat_map(|first| first.inclusive_siblings());
    let mut to_see: Vec<_> = top.map(|node| (node, false)).collect();
    to_see.reverse();
    while let Some((node, is_inside)) = to_see.pop() {
        let schema = node.schema();
        if MANY.contains(&schema.name()) {
            continue;
        }
        let is_watched = is_inside || unsupported::is_named(schema.name());
        let is_given = match schema.name() == ON_BY_DEFAULT {
            true => is_said_to_be_on(&node),
            false => !node.is_default() && !schema.is_np_container(),
        };
        if is_given && is_watched {
            found.push((node.path(), schema.path(yang5::schema::SchemaPathFormat::DATA)));
        }
        let first = to_see.len();
        to_see.extend(node.children().map(|child| (child, is_watched)));
        to_see[first..].reverse();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(text: &str) -> Result<Valid, Vec<ValidationError>> {
        schema().validate(&schema().parse(text, DataFormat::JSON)?)
    }

    #[test]
    fn modules_compile_and_defaults_are_filled_in() {
        let valid = valid("{}").unwrap();
        assert!(valid.text.contains("\"polling\""), "{}", valid.text);
        assert!(valid.given.is_empty(), "{:?}", valid.given);
        assert_eq!(source("ietf-ip").and_then(revision), Some("2018-02-22"));
    }

    #[test]
    fn autoconf_is_asked_for_only_where_it_is_switched_on() {
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
    fn faults_come_all_at_once() {
        let text = r#"{"stoa-system:system": {"workers": {"count": 0, "polling": "often"}}}"#;
        let errors = schema().faults(text);
        assert_eq!(errors.len(), 2, "{errors:#?}");
        assert_eq!(errors[0].path, "/stoa-system:system/workers/count");
        assert_eq!(errors[1].path, "/stoa-system:system/workers/polling");
    }
}
