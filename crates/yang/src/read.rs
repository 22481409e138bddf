//! Reads the values of a tree, in the form that RFC 7951 gives them, without the text: a deserializer of serde.
//!
//! Members of another module than their parent's have its name as a prefix, and so have identities of another module
//! than their leaf's. 64-bit numbers are texts, and entries of a list are a sequence. Containers without presence and
//! without content are left out.

use serde::de::value::{Error, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use yang5::data::{DataNodeRef, DataTree};
use yang5::schema::{DataValue, DataValueType, SchemaNodeKind};

/// Why values do not fit a type.
pub type ReadError = Error;

/// The values of a tree.
///
/// # Errors
/// When they do not fit the type.
pub fn tree<T: DeserializeOwned>(tree: &DataTree<'_>) -> Result<T, ReadError> {
    let first = tree.reference();
    T::deserialize(Node::Top(first))
}

/// The values of a node and what is below it.
///
/// # Errors
/// When they do not fit the type.
pub fn node<T: DeserializeOwned>(node: &DataNodeRef<'_>) -> Result<T, ReadError> {
    T::deserialize(Node::One(node.clone()))
}

/// The name of a node as a member of its parent's object: with its module, if that is another than the parent's.
pub fn member_name(node: &DataNodeRef<'_>) -> String {
    let mut name = String::new();
    let parent = node.ancestors().next();
    write_name(node, parent.as_ref(), &mut name);
    name
}

fn write_name(node: &DataNodeRef<'_>, parent: Option<&DataNodeRef<'_>>, to: &mut String) {
    to.clear();
    let schema = node.schema();
    let module = schema.module();
    if parent.is_none_or(|parent| parent.schema().module().as_raw() != module.as_raw()) {
        to.push_str(module.name());
        to.push(':');
    }
    to.push_str(schema.name());
}

/// The type of a leaf; that of its target, if it refers to another leaf.
fn leaf_type(node: &DataNodeRef<'_>) -> Option<DataValueType> {
    let schema = node.schema();
    let of = schema.leaf_type()?;
    match of.base_type() {
        DataValueType::LeafRef => of.leafref_real_type().map(|real| real.base_type()),
        own => Some(own),
    }
}

/// Our unions of which the first member is a number of 16 bits. libyang does not tell the member of a value.
const NUMBERS_FIRST: [&str; 1] = ["port-or-range"];

/// The number that a value of such a union is.
fn number_of_union(node: &DataNodeRef<'_>, text: &str) -> Option<u16> {
    let name = node.schema().leaf_type()?.typedef_name()?;
    let is_known = NUMBERS_FIRST.iter().any(|known| name.rsplit(':').next() == Some(known));
    text.parse().ok().filter(|_| is_known)
}

/// The name of an identity without the module, if that is the module of its leaf, as libyang prints it.
fn without_module(node: &DataNodeRef<'_>, identity: String) -> String {
    let schema = node.schema();
    let module = schema.module();
    let name = identity.strip_prefix(module.name()).and_then(|rest| rest.strip_prefix(':'));
    name.map(str::to_owned).unwrap_or(identity)
}

/// Whether a node has a value, or presence.
pub fn has_content(node: &DataNodeRef<'_>) -> bool {
    !node.schema().is_np_container() || node.children().any(|child| has_content(&child))
}

/// The value of an empty leaf: [null].
fn null() -> SeqDeserializer<std::iter::Once<()>, ReadError> {
    SeqDeserializer::new(std::iter::once(()))
}

fn after<'a>(node: &DataNodeRef<'a>) -> Option<DataNodeRef<'a>> {
    node.siblings().next()
}

/// What a value is read from.
enum Node<'a> {
    /// The first node of a tree.
    Top(Option<DataNodeRef<'a>>),
    /// A leaf, a container, or an entry of a list.
    One(DataNodeRef<'a>),
    /// The first entry of a list, which all others follow.
    Entries(DataNodeRef<'a>),
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let node = match self {
            Node::Top(first) => return visitor.visit_map(Members::new(None, first)),
            Node::Entries(first) => return visitor.visit_seq(Entries(Some(first))),
            Node::One(node) => node,
        };
        match node.value() {
            None => {
                let first = node.children().next();
                visitor.visit_map(Members::new(Some(node), first))
            }
            Some(DataValue::Bool(value)) => visitor.visit_bool(value),
            Some(DataValue::Uint8(value)) => visitor.visit_u8(value),
            Some(DataValue::Uint16(value)) => visitor.visit_u16(value),
            Some(DataValue::Uint32(value)) => visitor.visit_u32(value),
            Some(DataValue::Int8(value)) => visitor.visit_i8(value),
            Some(DataValue::Int16(value)) => visitor.visit_i16(value),
            Some(DataValue::Int32(value)) => visitor.visit_i32(value),
            Some(DataValue::Uint64(value)) => visitor.visit_string(value.to_string()),
            Some(DataValue::Int64(value)) => visitor.visit_string(value.to_string()),
            Some(DataValue::Empty) => visitor.visit_seq(null()),
            Some(DataValue::Other(text)) => match leaf_type(&node) {
                Some(DataValueType::Empty) => visitor.visit_seq(null()),
                Some(DataValueType::Union) if let Some(number) = number_of_union(&node, &text) => {
                    visitor.visit_u16(number)
                }
                Some(DataValueType::IdentityRef) => {
                    visitor.visit_string(without_module(&node, text))
                }
                _ => visitor.visit_string(text),
            },
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let name = String::deserialize(self)?;
        visitor.visit_enum(name.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier
    }
}

/// The members of an object.
struct Members<'a> {
    parent: Option<DataNodeRef<'a>>,
    /// The first node that is not read yet.
    next: Option<DataNodeRef<'a>>,
    value: Option<Node<'a>>,
    name: String,
}

impl<'a> Members<'a> {
    fn new(parent: Option<DataNodeRef<'a>>, next: Option<DataNodeRef<'a>>) -> Self {
        Self { parent, next, value: None, name: String::new() }
    }
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        while let Some(node) = self.next.take() {
            self.next = after(&node);
            if !has_content(&node) {
                continue;
            }
            write_name(&node, self.parent.as_ref(), &mut self.name);
            let schema = node.schema();
            let is_list = matches!(schema.kind(), SchemaNodeKind::List | SchemaNodeKind::LeafList);
            while is_list && self.next.as_ref().is_some_and(|next| next.schema() == schema) {
                self.next = self.next.as_ref().and_then(after);
            }
            self.value = Some(if is_list { Node::Entries(node) } else { Node::One(node) });
            return seed.deserialize(self.name.as_str().into_deserializer()).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        seed.deserialize(self.value.take().unwrap_or(Node::Top(None)))
    }
}

/// The entries of a list from the next one on.
struct Entries<'a>(Option<DataNodeRef<'a>>);

impl<'de> SeqAccess<'de> for Entries<'_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some(node) = self.0.take() else { return Ok(None) };
        self.0 = after(&node).filter(|next| next.schema() == node.schema());
        seed.deserialize(Node::One(node)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use yang5::data::{Data, DataFormat, DataPrinterFlags};

    use super::*;
    use crate::schema;

    /// The values of the text that libyang prints.
    fn printed(tree: &DataTree<'_>) -> Value {
        let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::WD_ALL;
        serde_json::from_str(&tree.print_string(DataFormat::JSON, flags).unwrap()).unwrap()
    }

    #[test]
    fn values_are_those_of_the_printed_text() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
        let mut texts: Vec<String> =
            files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert!(texts.len() >= 4, "examples are missing");
        // 64-bit numbers, identities, an empty leaf, lists of leafs, and an empty list of another module.
        texts.push(
            r#"{"ietf-interfaces:interfaces": {"interface": [
              {"name": "a", "type": "iana-if-type:ethernetCsmacd",
               "stoa-interfaces:port": {"generator": {"source": "192.0.2.1", "destination": "192.0.2.2",
                "count": "18446744073709551615"}}},
              {"name": "b", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
               "ietf-ip:ipv6": {"forwarding": true, "address": [{"ip": "2001:db8::1", "prefix-length": 64}],
                "ietf-ipv6-unicast-routing:ipv6-router-advertisements": {"send-advertisements": true,
                 "prefix-list": {"prefix": [{"prefix-spec": "2001:db8::/64", "no-advertise": [null]}]}}}}]},
             "stoa-system:system": {"workers": {"cpus": [3, 1]}}}"#
                .to_owned(),
        );
        for text in texts {
            let given = schema().parse(&text, DataFormat::JSON).unwrap();
            let valid = schema().validate(&given).unwrap();
            let values: Value = tree(&valid.tree).unwrap();
            assert_eq!(values, printed(&valid.tree));
        }
    }

    /// A misspelt name would leave the field at its default. A message is a list or a container.
    #[test]
    fn leaves_of_the_contract_exist() {
        use SchemaNodeKind::{Container, Leaf, LeafList, List};
        let is_leaf = |kind| matches!(kind, Container | Leaf | LeafList | List);
        let leaves: std::collections::BTreeSet<String> = schema()
            .context()
            .traverse()
            .filter(|node| is_leaf(node.kind()) && node.is_config())
            .map(|node| format!("{}:{}", node.module().name(), node.name()))
            .collect();
        assert!(stoa_api::json::LEAVES.len() > 50, "{:?}", stoa_api::json::LEAVES);
        for (field, leaf) in stoa_api::json::LEAVES {
            assert!(leaves.contains(*leaf), "{field}: there is no leaf {leaf}");
        }
    }

    #[test]
    fn a_member_is_read_alone() {
        let text = r#"{"stoa-system:system": {"workers": {"count": 3}}}"#;
        let given = schema().parse(text, DataFormat::JSON).unwrap();
        let top = given.reference().unwrap();
        let workers = top.children().next().unwrap();
        assert_eq!(
            (member_name(&top), member_name(&workers)),
            ("stoa-system:system".into(), "workers".into())
        );
        assert_eq!(node::<Value>(&workers).unwrap(), serde_json::json!({ "count": 3 }));
        assert!(node::<Vec<u8>>(&workers).is_err());
        assert_eq!(
            tree::<Value>(&schema().parse("{}", DataFormat::JSON).unwrap()).unwrap(),
            serde_json::json!({})
        );
    }
}
