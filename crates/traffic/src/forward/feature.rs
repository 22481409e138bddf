//! Features that a benchmark enables on interfaces.

use std::str::FromStr;

use stoa_forwarder::control::desired::Interface;
use stoa_forwarder::ip::reverse_path;

/// A feature of the receiving interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// uRPF, strict: the route to the source leads through the receiving interface.
    UrpfStrict,
    /// uRPF, loose: there is a route to the source.
    UrpfLoose,
    /// A node in the arc that does nothing: the cost of the arc itself.
    Noop,
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::UrpfStrict, Self::UrpfLoose, Self::Noop];
        let found = all.into_iter().find(|feature| feature.name() == text);
        found.ok_or_else(|| "give urpf-strict, urpf-loose or noop".to_owned())
    }
}

impl Feature {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::UrpfStrict => "urpf-strict",
            Self::UrpfLoose => "urpf-loose",
            Self::Noop => "noop",
        }
    }

    /// Whether it checks the source of packets.
    pub(super) fn is_urpf(self) -> bool {
        matches!(self, Self::UrpfStrict | Self::UrpfLoose)
    }

    /// Enables the feature on an interface, as a controller does.
    pub(super) fn enable(self, interface: &mut Interface) {
        let mode = match self {
            Self::UrpfStrict => reverse_path::STRICT,
            Self::UrpfLoose => reverse_path::LOOSE,
            Self::Noop => return interface.noop = true,
        };
        (interface.ip4.reverse_path, interface.ip6.reverse_path) = (mode, mode);
    }
}

/// The names of features, as results list them.
pub(super) fn names(features: &[Feature]) -> Vec<&'static str> {
    features.iter().map(|feature| feature.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_names_and_change_the_desired_state() {
        for feature in [Feature::UrpfStrict, Feature::UrpfLoose, Feature::Noop] {
            assert_eq!(feature.name().parse(), Ok(feature));
        }
        assert!("urpf".parse::<Feature>().unwrap_err().contains("give urpf-strict"));
        let mut interface = Interface::default();
        Feature::UrpfStrict.enable(&mut interface);
        let modes = (interface.ip4.reverse_path, interface.ip6.reverse_path);
        assert_eq!(modes, (reverse_path::STRICT, reverse_path::STRICT));
        assert!(!interface.noop);
        Feature::Noop.enable(&mut interface);
        assert!(interface.noop);
    }
}
