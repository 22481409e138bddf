//! Compiles the contract without an installed `protoc`.
//!
//! Messages of the desired state get a JSON form (`src/json.rs`). A field whose JSON name is that of a YANG leaf with
//! its module, such as `[json_name = "stoa-ip:redirects"]`, is read from the configuration as it is: its message
//! implements `Deserialize`, and all its other fields keep their defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use tonic_prost_build::Builder;

/// The package of the contract.
const PACKAGE: &str = ".stoa.v1.";
/// The message from which all messages with a JSON form are reached.
const ROOT: &str = ".stoa.v1.Desired";
/// Messages that `src/json.rs` writes as one text.
const TEXTS: [&str; 4] = ["Address", "Path", "Prefix", "Tag"];

/// Messages with keys: `src/ipsec.rs` has a `Debug` that leaves these out.
const SECRETS: [&str; 1] = [".stoa.v1.SecurityAssociation"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "proto/stoa/v1/audit.proto",
            "proto/stoa/v1/configuration.proto",
            "proto/stoa/v1/flow_sync.proto",
            "proto/stoa/v1/flows.proto",
            "proto/stoa/v1/forwarder.proto",
            "proto/stoa/v1/ipfix.proto",
            "proto/stoa/v1/ipsec.proto",
            "proto/stoa/v1/log.proto",
            "proto/stoa/v1/login.proto",
            "proto/stoa/v1/nat.proto",
            "proto/stoa/v1/operator.proto",
            "proto/stoa/v1/punts.proto",
            "proto/stoa/v1/rows.proto",
            "proto/stoa/v1/trace_capture.proto",
            "proto/gnmi/gnmi.proto",
            "proto/gnmi/gnmi_ext.proto",
        ],
        ["proto"],
    )?;
    // BTreeMap: the keys of a path have a stable order.
    let mut code = tonic_prost_build::configure().btree_map(".gnmi").skip_debug(SECRETS);
    let contract = Contract::of(&files);
    for name in contract.desired() {
        code = contract.derive(code, &name);
    }
    let folder = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&folder).join("enumerations.rs"), contract.enumerations())?;
    std::fs::write(Path::new(&folder).join("leaves.rs"), contract.leaves())?;
    code.compile_fds(files)?;
    Ok(())
}

/// The messages and enumerations of the contract, by their full names.
struct Contract<'a> {
    messages: BTreeMap<String, &'a DescriptorProto>,
    enumerations: BTreeMap<String, &'a EnumDescriptorProto>,
}

/// Whether a field is a leaf of the configuration.
fn is_leaf(field: &FieldDescriptorProto) -> bool {
    field.json_name().contains(':')
}

fn is_text(name: &str) -> bool {
    name.strip_prefix(PACKAGE).is_some_and(|name| TEXTS.contains(&name))
}

/// "hash_seed" of "HashSeed".
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

impl<'a> Contract<'a> {
    fn of(files: &'a FileDescriptorSet) -> Self {
        let of_contract =
            files.file.iter().filter(|file| format!(".{}.", file.package()) == PACKAGE);
        let (mut messages, mut enumerations) = (BTreeMap::new(), BTreeMap::new());
        for file in of_contract {
            let full = |name: &str| format!("{PACKAGE}{name}");
            messages.extend(file.message_type.iter().map(|it| (full(it.name()), it)));
            enumerations.extend(file.enum_type.iter().map(|it| (full(it.name()), it)));
        }
        Self { messages, enumerations }
    }

    /// The names of the messages of the desired state.
    fn desired(&self) -> BTreeSet<String> {
        let (mut found, mut pending) = (BTreeSet::new(), vec![ROOT.to_owned()]);
        while let Some(name) = pending.pop() {
            if is_text(&name) || found.contains(&name) {
                continue;
            }
            let fields = self.messages[&name].field.iter();
            let messages = fields.filter(|field| field.r#type() == Type::Message);
            pending.extend(messages.map(|field| field.type_name().to_owned()));
            found.insert(name);
        }
        found
    }

    fn is_read(&self, name: &str) -> bool {
        is_text(name) || self.messages[name].field.iter().any(is_leaf)
    }

    /// Adds the attributes of serde to a message.
    fn derive(&self, code: Builder, name: &str) -> Builder {
        let message = self.messages[name];
        let mut code = code.message_attribute(name, "#[derive(serde::Serialize)]");
        let is_read = self.is_read(name);
        if is_read {
            code = code.message_attribute(name, "#[derive(serde::Deserialize)]");
            code = code.message_attribute(name, "#[serde(default)]");
        }
        for oneof in &message.oneof_decl {
            // An optional field has one of its own, which is no type of the code.
            if oneof.name().starts_with('_') {
                continue;
            }
            let place = format!("{name}.{}", oneof.name());
            code = code.enum_attribute(&place, "#[derive(serde::Serialize)]");
            code = code.enum_attribute(&place, "#[serde(rename_all = \"kebab-case\")]");
            if is_read {
                code = code.field_attribute(&place, "#[serde(skip_deserializing)]");
            }
        }
        for field in &message.field {
            let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
            let place = match oneof.and_then(|at| message.oneof_decl.get(at as usize)) {
                Some(oneof) => format!("{name}.{}.{}", oneof.name(), field.name()),
                None => format!("{name}.{}", field.name()),
            };
            let is_read = is_read && oneof.is_none();
            for attribute in self.of_field(field, is_read) {
                code = code.field_attribute(&place, format!("#[serde({attribute})]"));
            }
        }
        code
    }

    /// The attributes of a field; `is_read`: those for reading it as well.
    fn of_field(&self, field: &FieldDescriptorProto, is_read: bool) -> Vec<String> {
        let mut attributes = Vec::new();
        let is_leaf = is_leaf(field);
        if is_read && !is_leaf {
            attributes.push("skip_deserializing".to_owned());
        }
        if is_read && is_leaf {
            let leaf = field.json_name();
            let (_, local) = leaf.split_once(':').unwrap_or_default();
            attributes.push(format!("rename(deserialize = {leaf:?}), alias = {local:?}"));
        }
        let how = if is_read && is_leaf { "with" } else { "serialize_with" };
        let end = if how == "with" { "" } else { "::serialize" };
        match (field.r#type(), field.label()) {
            (Type::Bytes, Label::Repeated) => {
                assert!(
                    how == "serialize_with",
                    "{}: lists of addresses cannot be read",
                    field.name()
                );
                attributes
                    .push("serialize_with = \"crate::json::bytes_list::serialize\"".to_owned());
            }
            (Type::Bytes, _) => attributes.push(format!("{how} = \"crate::json::bytes{end}\"")),
            (Type::Enum, _) => {
                let module = snake(field.type_name().trim_start_matches(PACKAGE));
                attributes.push(format!("{how} = \"crate::json::{module}{end}\""));
            }
            // 64-bit numbers are strings (RFC 7951, section 6.1).
            (Type::Uint64, _) if is_read && is_leaf => {
                attributes.push("deserialize_with = \"crate::json::number_in_text\"".to_owned());
            }
            (Type::Message, _) if is_read && is_leaf => {
                assert!(self.is_read(field.type_name()), "{} has no leaf", field.type_name());
            }
            _ => {}
        }
        attributes
    }

    /// The array of all fields that are leaves, with the names of these.
    fn leaves(&self) -> String {
        let mut text = "&[".to_owned();
        for (name, message) in &self.messages {
            for field in message.field.iter().filter(|field| is_leaf(field)) {
                let place = format!("{}.{}", name.trim_start_matches(PACKAGE), field.name());
                let _ = write!(text, "({place:?}, {:?}),", field.json_name());
            }
        }
        text + "]"
    }

    /// The enumerations of the desired state, and whether a leaf is of it.
    fn used(&self) -> BTreeMap<&'a str, bool> {
        let mut used = BTreeMap::new();
        for name in self.desired() {
            let fields = self.messages[&name].field.iter();
            for field in fields.filter(|field| field.r#type() == Type::Enum) {
                *used.entry(field.type_name()).or_insert(false) |= is_leaf(field);
            }
        }
        used
    }

    /// A call of a macro for each enumeration: its numbers and their names as in YANG.
    fn enumerations(&self) -> String {
        let (mut text, used) = (String::new(), self.used());
        for enumeration in self.enumerations.values() {
            let name = format!("{PACKAGE}{}", enumeration.name());
            let Some(is_read) = used.get(name.as_str()) else { continue };
            let read = if *is_read { " deserialize" } else { "" };
            let _ = write!(text, "enumeration!({}{read}", snake(enumeration.name()));
            // "ATTACH_" of "ATTACH_AUTO" and "ATTACH_NATIVE".
            let names: Vec<&str> = enumeration.value.iter().map(|value| value.name()).collect();
            let first = names.first().and_then(|name| name.split_inclusive('_').next());
            let is_shared = |word: &&str| {
                word.ends_with('_') && names.iter().all(|name| name.starts_with(*word))
            };
            let shared = first.filter(is_shared).unwrap_or_default();
            for value in &enumeration.value {
                let name = value.name().strip_prefix(shared).unwrap_or_default();
                let name = name.to_lowercase().replace('_', "-");
                let _ = write!(text, ", {} {name:?}", value.number());
            }
            text.push_str(");\n");
        }
        text
    }
}
