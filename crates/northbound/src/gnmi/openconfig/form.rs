//! Conversions of IETF values to OpenConfig values.

use serde_json::{Value, json};

use super::next_hops;

/// How a value is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Not at all.
    Same,
    /// A number as the text of a 64-bit one (RFC 7951, section 6.1).
    Counter,
    /// `lower-layer-down` as `LOWER_LAYER_DOWN`.
    Capitals,
    /// Whether it is `up`.
    IsUp,
    /// A time as nanoseconds since 1970.
    Nanoseconds,
    /// The protocol of a route.
    Origin,
    /// A session of a route source as a state of BGP (RFC 4271, section 8.2.2).
    SessionState,
    /// Whether a VRF is the default one.
    InstanceType,
    /// The next hops of a route as the id of their group.
    GroupId,
    /// This value wherever the IETF value exists.
    Fixed(&'static str),
    /// The key with this number.
    KeyText(usize),
    /// The same as a number.
    KeyNumber(usize),
}

impl Form {
    /// The OpenConfig value; `None`: OpenConfig has no such value.
    pub fn convert(self, value: &Value, keys: &[String]) -> Option<Value> {
        Some(match self {
            Form::Same => value.clone(),
            Form::Counter => json!(crate::gnmi::tree::plain(value)),
            Form::Capitals => json!(value.as_str()?.to_uppercase().replace('-', "_")),
            Form::IsUp => json!(value.as_str()? == "up"),
            Form::Nanoseconds => json!(nanoseconds(value.as_str()?)?.to_string()),
            Form::Origin => json!(origin(value.as_str()?)?),
            Form::SessionState => json!(session_state(value)),
            Form::InstanceType => {
                let kind = if value.as_bool()? { "DEFAULT_INSTANCE" } else { "L3VRF" };
                json!(format!("openconfig-network-instance-types:{kind}"))
            }
            Form::GroupId => json!(next_hops::group(value)?.id.to_string()),
            Form::Fixed(fixed) => json!(fixed),
            Form::KeyText(at) => json!(keys.get(at)?),
            Form::KeyNumber(at) => json!(keys.get(at)?.parse::<u64>().ok()?),
        })
    }

    /// Whether the value changes all the time.
    pub fn is_fast(self) -> bool {
        self == Form::Counter
    }
}

fn nanoseconds(time: &str) -> Option<u128> {
    let time: prost_types::Timestamp = time.parse().ok()?;
    let seconds = u128::try_from(time.seconds).ok()?;
    Some(seconds * 1_000_000_000 + u128::try_from(time.nanos).ok()?)
}

fn origin(protocol: &str) -> Option<&'static str> {
    // An identity of the module of the leaf need not have its module.
    Some(match protocol.rsplit(':').next()? {
        "direct" => "openconfig-policy-types:DIRECTLY_CONNECTED",
        "static" => "openconfig-policy-types:STATIC",
        "bgp" => "openconfig-policy-types:BGP",
        "ospf" => "openconfig-policy-types:OSPF",
        "isis" => "openconfig-policy-types:ISIS",
        _ => return None,
    })
}

fn session_state(session: &Value) -> &'static str {
    match (session.get("up-since"), session["open"].as_bool()) {
        (Some(_), _) => "ESTABLISHED",
        // Stoa waits for the daemon to connect.
        (None, Some(true)) => "ACTIVE",
        (None, _) => "IDLE",
    }
}
