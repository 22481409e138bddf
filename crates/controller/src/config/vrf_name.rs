//! The name of a VRF as a key of many routes.

use std::cmp::Ordering;

/// The name of a VRF; "" is the default one, and sorts first.
///
/// Comparing two empty strings with memcmp() takes 150 ns: their dangling pointer causes a fault in a vector
/// instruction of libc. That was six tenths of the time for 100,000 routes.
#[expect(clippy::derived_hash_with_manual_eq, reason = "they are equal where the texts are")]
#[derive(Clone, Debug, Default, Eq, Hash)]
pub struct VrfName(pub String);

impl PartialEq for VrfName {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl VrfName {
    /// Whether it is this name, without memcmp() for the default VRF.
    pub fn is(&self, name: &str) -> bool {
        self.0.len() == name.len() && (name.is_empty() || self.0 == name)
    }
}

impl Ord for VrfName {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0.is_empty(), other.0.is_empty()) {
            (false, false) => self.0.cmp(&other.0),
            (mine, theirs) => theirs.cmp(&mine),
        }
    }
}

impl PartialOrd for VrfName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for VrfName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::ops::Deref for VrfName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for VrfName {
    fn from(name: &str) -> Self {
        VrfName(name.to_owned())
    }
}
