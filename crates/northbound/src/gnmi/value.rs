//! Values: encoded for responses, decoded into RFC 7951 form from requests.

use serde_json::{Map, Number, Value};
use stoa_api::gnmi::typed_value::Value as Typed;
use stoa_api::gnmi::{Decimal64, Encoding, TypedValue};
use tonic::Status;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::path::in_data;
use super::tree::{below, plain};

/// Maximum number of fraction digits of a decimal.
const PRECISION_LIMIT: u32 = 18;

/// A supported encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueEncoding {
    /// RFC 7951: names with their modules.
    JsonIetf,
    /// The same values, names without modules.
    Json,
}

impl ValueEncoding {
    /// All encodings, the preferred one first.
    pub const ALL: [Encoding; 2] = [Encoding::JsonIetf, Encoding::Json];

    /// The encoding with this number.
    ///
    /// # Errors
    /// When it is not supported.
    pub fn of(number: i32) -> Result<ValueEncoding, Status> {
        match Encoding::try_from(number) {
            Ok(Encoding::JsonIetf) => Ok(ValueEncoding::JsonIetf),
            Ok(Encoding::Json) => Ok(ValueEncoding::Json),
            Ok(other) => {
                let name = other.as_str_name();
                Err(Status::unimplemented(format!(
                    "encoding {name} is not supported: use JSON_IETF or JSON"
                )))
            }
            Err(_) => Err(Status::invalid_argument(format!(
                "unknown encoding {number}: use JSON_IETF or JSON"
            ))),
        }
    }

    /// Encodes a value of this node, which may be an object; `None`: the root.
    pub fn encode(self, node: Option<&SchemaNode<'static>>, value: &Value) -> TypedValue {
        let value = match (self, value, node) {
            (ValueEncoding::Json, ..) => self.text(&bare(value)),
            // RFC 7951, section 4: the top names of a text have their modules.
            (ValueEncoding::JsonIetf, Value::Object(members), Some(node)) => {
                let module = node.module().name().to_owned();
                let named = members.iter().map(|(name, value)| match name.contains(':') {
                    true => (name.clone(), value.clone()),
                    false => (format!("{module}:{name}"), value.clone()),
                });
                self.text(&Value::Object(named.collect()))
            }
            (ValueEncoding::JsonIetf, ..) => self.text(value),
        };
        TypedValue { value: Some(value) }
    }

    /// A text that is already encoded.
    pub fn preencoded(self, text: String) -> TypedValue {
        let value = match self {
            ValueEncoding::JsonIetf => Typed::JsonIetfVal(text.into_bytes()),
            ValueEncoding::Json => Typed::JsonVal(text.into_bytes()),
        };
        TypedValue { value: Some(value) }
    }

    /// The text of a value.
    pub fn text_of(self, value: &Value) -> String {
        match (self, value) {
            (ValueEncoding::Json, Value::Object(_) | Value::Array(_)) => bare(value).to_string(),
            _ => value.to_string(),
        }
    }

    fn text(self, value: &Value) -> Typed {
        let bytes = value.to_string().into_bytes();
        match self {
            ValueEncoding::JsonIetf => Typed::JsonIetfVal(bytes),
            ValueEncoding::Json => Typed::JsonVal(bytes),
        }
    }
}

/// A value without module names, except for members that would otherwise have the same name.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(bare).collect(),
        Value::Object(members) => {
            let mut out = Map::new();
            for (name, value) in members {
                let short = name.rsplit(':').next().unwrap_or(name);
                let name = if out.contains_key(short) { name } else { short };
                out.insert(name.to_owned(), bare(value));
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

/// Decodes the value of a request for this node (`None`: the root) into JSON.
///
/// # Errors
/// When its type is not supported, or it is not valid JSON.
pub fn decode(
    value: Option<&TypedValue>,
    node: Option<&SchemaNode<'static>>,
) -> Result<Value, Status> {
    let value = value.and_then(|value| value.value.as_ref());
    let value = value.ok_or_else(|| Status::invalid_argument("the update has no value"))?;
    Ok(fit(node, read(value)?))
}

#[allow(deprecated)]
fn read(value: &Typed) -> Result<Value, Status> {
    let real = |number: f64| {
        let number = Number::from_f64(number).map(Value::Number);
        number.ok_or_else(|| Status::invalid_argument("the number is not finite"))
    };
    match value {
        Typed::JsonIetfVal(bytes) | Typed::JsonVal(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| {
                Status::invalid_argument(format!("the value is not valid JSON: {error}"))
            })
        }
        Typed::StringVal(text) | Typed::AsciiVal(text) => Ok(Value::String(text.clone())),
        Typed::IntVal(number) => Ok((*number).into()),
        Typed::UintVal(number) => Ok((*number).into()),
        Typed::BoolVal(is) => Ok((*is).into()),
        Typed::DoubleVal(number) => real(*number),
        Typed::FloatVal(number) => real((*number).into()),
        Typed::DecimalVal(decimal) => decimal_text(*decimal).map(Value::String),
        Typed::LeaflistVal(list) => {
            let one = |one: &TypedValue| match &one.value {
                // No nested leaf-lists, which bounds the recursion.
                Some(Typed::LeaflistVal(_)) | None => {
                    Err(Status::invalid_argument("a leaf-list must contain scalar values"))
                }
                Some(value) => read(value),
            };
            list.element.iter().map(one).collect()
        }
        Typed::BytesVal(_) | Typed::AnyVal(_) | Typed::ProtoBytes(_) => {
            let words =
                "unsupported type of value: use json_ietf_val, json_val or a scalar of one leaf";
            Err(Status::unimplemented(words))
        }
    }
}

fn decimal_text(decimal: Decimal64) -> Result<String, Status> {
    let Decimal64 { digits, precision } = decimal;
    if precision > PRECISION_LIMIT {
        let words = format!("a decimal must have at most {PRECISION_LIMIT} fraction digits");
        return Err(Status::invalid_argument(words));
    }
    let places = precision as usize;
    let text = format!("{:0>width$}", digits.unsigned_abs(), width = places + 1);
    let (before, after) = text.split_at(text.len() - places);
    let sign = if digits < 0 { "-" } else { "" };
    let point = if places == 0 { "" } else { "." };
    Ok(format!("{sign}{before}{point}{after}"))
}

/// A value with the names and types of the schema: names get their module where it is unambiguous, and numbers and
/// booleans in text form become the type of the leaf. What does not match stays, and libyang reports it.
fn fit(node: Option<&SchemaNode<'static>>, value: Value) -> Value {
    let kind = node.map(SchemaNode::kind);
    match (value, kind) {
        (Value::Array(list), Some(SchemaNodeKind::LeafList | SchemaNodeKind::List)) => {
            list.into_iter().map(|one| fit(node, one)).collect()
        }
        (Value::Object(members), None | Some(SchemaNodeKind::Container | SchemaNodeKind::List)) => {
            let members = members.into_iter().map(|(name, value)| {
                let (name, child) = resolved(node, name);
                let value = if child.is_some() { fit(child.as_ref(), value) } else { value };
                (name, value)
            });
            Value::Object(members.collect())
        }
        (value, Some(SchemaNodeKind::Leaf | SchemaNodeKind::LeafList)) => scalar(node, value),
        (value, _) => value,
    }
}

/// The name of a member in RFC 7951 form, and its node.
fn resolved(
    parent: Option<&SchemaNode<'static>>,
    name: String,
) -> (String, Option<SchemaNode<'static>>) {
    if name.contains('\0') || name.starts_with('@') {
        return (name, None);
    }
    if let Some(node) = below(parent, &name) {
        return (name, Some(node));
    }
    if name.contains(':') {
        return (name, None);
    }
    let mut found = in_data(parent);
    found.retain(|node| node.name() == name);
    match found.pop().filter(|_| found.is_empty()) {
        Some(node) => (format!("{}:{name}", node.module().name()), Some(node)),
        None => (name, None),
    }
}

/// A scalar value with the type of its leaf.
fn scalar(node: Option<&SchemaNode<'static>>, value: Value) -> Value {
    use DataValueType as Type;
    let kind = node.and_then(SchemaNode::leaf_type).map(|kind| match kind.base_type() {
        Type::LeafRef => kind.leafref_real_type().map_or(Type::Unknown, |real| real.base_type()),
        base => base,
    });
    match (kind, value) {
        (
            Some(
                Type::Uint8 | Type::Uint16 | Type::Uint32 | Type::Int8 | Type::Int16 | Type::Int32,
            ),
            Value::String(text),
        ) => text.parse::<i64>().map_or(Value::String(text), Value::from),
        (Some(Type::Bool), Value::String(text)) => match text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            _ => Value::String(text),
        },
        (Some(Type::Uint64 | Type::Int64 | Type::Dec64 | Type::String), value)
            if value.is_number() =>
        {
            Value::String(plain(&value))
        }
        (Some(Type::Empty), Value::Null | Value::Bool(true)) => vec![Value::Null].into(),
        (_, value) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gnmi::path::PathPattern;
    use crate::gnmi::tests::path;
    use serde_json::json;

    fn node(text: &str) -> SchemaNode<'static> {
        PathPattern::read(None, Some(&path(text))).unwrap().ends.remove(0)
    }

    fn of(text: &str, value: Typed) -> Value {
        decode(Some(&TypedValue { value: Some(value) }), Some(&node(text))).unwrap()
    }

    #[test]
    fn values_take_the_form_of_their_leaves() {
        let json = |value: Value| Typed::JsonVal(value.to_string().into_bytes());
        let lan = "interfaces/interface[name=lan]";
        let enabled = format!("{lan}/enabled");
        assert_eq!(of(&enabled, json(json!("true"))), json!(true));
        assert_eq!(of(&enabled, Typed::BoolVal(false)), json!(false));
        assert_eq!(of(&enabled, Typed::StringVal("often".into())), json!("often"));
        assert_eq!(of(&format!("{lan}/ipv4/mtu"), json(json!("1400"))), json!(1400));
        assert_eq!(of(&format!("{lan}/ipv4/mtu"), Typed::UintVal(1400)), json!(1400));
        assert_eq!(of(&format!("{lan}/description"), json(json!(7))), json!("7"));
        let whole = of(
            lan,
            json(json!({ "type": "iana-if-type:ethernetCsmacd", "port": { "null": {} },
            "ipv4": { "address": [{ "ip": "10.0.0.1", "prefix-length": "24" }] } })),
        );
        let expected = json!({ "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "ietf-ip:ipv4": { "address": [{ "ip": "10.0.0.1", "prefix-length": 24 }] } });
        assert_eq!(whole, expected);
        let cpus = Typed::LeaflistVal(stoa_api::gnmi::ScalarArray {
            element: [1, 2].map(|cpu| TypedValue { value: Some(Typed::UintVal(cpu)) }).into(),
        });
        assert_eq!(of("stoa-system:system/workers/cpus", cpus), json!([1, 2]));
    }

    #[test]
    fn decimals_are_written_out() {
        let text = |digits, precision| decimal_text(Decimal64 { digits, precision });
        assert_eq!(text(-1234, 2).unwrap(), "-12.34");
        assert_eq!(text(5, 3).unwrap(), "0.005");
        assert_eq!(text(i64::MIN, 0).unwrap(), "-9223372036854775808");
        assert!(text(1, u32::MAX).is_err());
    }

    #[test]
    fn json_has_no_modules_and_loses_nothing() {
        let value = json!({ "a:x": 1, "b:x": [{ "c:y": "d:z" }], "e": null });
        assert_eq!(bare(&value), json!({ "x": 1, "b:x": [{ "y": "d:z" }], "e": null }));
        let lan = node("interfaces/interface[name=lan]");
        let value = json!({ "name": "lan", "ietf-ip:ipv4": { "mtu": 1400 } });
        let encode = ValueEncoding::JsonIetf.encode(Some(&lan), &value).value;
        let expected = json!({ "ietf-interfaces:name": "lan", "ietf-ip:ipv4": { "mtu": 1400 } });
        assert_eq!(encode, Some(Typed::JsonIetfVal(expected.to_string().into_bytes())));
    }
}
