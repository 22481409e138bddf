//! Features that a benchmark enables on interfaces.

use std::str::FromStr;

use stoa_forwarder::control::desired::{Interface, Login};
use stoa_forwarder::ip::reverse_path;

/// A feature of the receiving interfaces, or of the sending ones: [`Feature::is_output`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// uRPF, strict: the route to the source leads through the receiving interface.
    UrpfStrict,
    /// uRPF, loose: there is a route to the source.
    UrpfLoose,
    /// A node in the arcs `ip4-input` and `ip6-input` that does nothing: the cost of an arc itself.
    Noop,
    /// The same in the arc `ethernet-input`.
    NoopEthernet,
    /// The same in the arc `ip-local`.
    NoopLocal,
    /// The same in the arcs `ip4-origin` and `ip6-origin`, which belong to the whole router.
    NoopOrigin,
    /// The same in the arcs `ip4-output` and `ip6-output` of the sending interfaces.
    NoopOutput,
    /// The same in their arc `port-output`.
    NoopPort,
    /// A node in the arcs `ip4-input` and `ip6-input` that asks for the flow of each packet.
    Flow,
    /// Hosts have to log in, and the senders have.
    Login,
    /// The same of the next hops: what they get is counted.
    LoginOutput,
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|feature| feature.name() == text);
        found.ok_or_else(|| format!("give one of: {}", names(&Self::ALL).join(", ")))
    }
}

impl Feature {
    /// All features.
    const ALL: [Self; 11] = [
        Self::UrpfStrict,
        Self::UrpfLoose,
        Self::Noop,
        Self::NoopEthernet,
        Self::NoopLocal,
        Self::NoopOrigin,
        Self::NoopOutput,
        Self::NoopPort,
        Self::Flow,
        Self::Login,
        Self::LoginOutput,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::UrpfStrict => "urpf-strict",
            Self::UrpfLoose => "urpf-loose",
            Self::Noop => "noop",
            Self::Flow => "flow",
            Self::Login => "login",
            Self::LoginOutput => "login-output",
            Self::NoopEthernet => "noop-ethernet",
            Self::NoopLocal => "noop-local",
            Self::NoopOrigin => "noop-origin",
            Self::NoopOutput => "noop-output",
            Self::NoopPort => "noop-port",
        }
    }

    /// Whether it checks the source of packets.
    pub(super) fn is_urpf(self) -> bool {
        matches!(self, Self::UrpfStrict | Self::UrpfLoose)
    }

    /// Whether it is one of the whole router.
    pub(super) fn is_of_router(self) -> bool {
        self == Self::NoopOrigin
    }

    /// Whether it is a feature of the interfaces that send.
    pub(super) fn is_output(self) -> bool {
        matches!(self, Self::NoopOutput | Self::NoopPort | Self::LoginOutput)
    }

    /// Enables the feature on an interface, as a controller does, unless it is one of the whole router.
    pub(super) fn enable(self, interface: &mut Interface) {
        let mode = match self {
            Self::UrpfStrict => reverse_path::STRICT,
            Self::UrpfLoose => reverse_path::LOOSE,
            Self::Noop => return interface.noop = true,
            Self::Flow => return interface.flow_hash = true,
            Self::NoopEthernet => return interface.noop_ethernet = true,
            Self::NoopLocal => return interface.noop_local = true,
            Self::NoopOrigin => return,
            Self::NoopOutput => return interface.noop_output = true,
            Self::NoopPort => return interface.noop_port = true,
            Self::Login | Self::LoginOutput => return interface.login = Some(Login::default()),
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
        for feature in Feature::ALL {
            assert_eq!(feature.name().parse(), Ok(feature));
        }
        assert!("urpf".parse::<Feature>().unwrap_err().contains("urpf-loose, noop, noop-ethernet"));
        let mut interface = Interface::default();
        Feature::UrpfStrict.enable(&mut interface);
        let modes = (interface.ip4.reverse_path, interface.ip6.reverse_path);
        assert_eq!(modes, (reverse_path::STRICT, reverse_path::STRICT));
        assert!(!interface.noop);
        Feature::Noop.enable(&mut interface);
        assert!(interface.noop && !interface.noop_ethernet && !interface.flow_hash);
        assert!(!interface.noop_output && !interface.noop_port);
        Feature::NoopEthernet.enable(&mut interface);
        Feature::NoopLocal.enable(&mut interface);
        Feature::Flow.enable(&mut interface);
        assert!(interface.noop_ethernet && interface.noop_local && interface.flow_hash);
        Feature::NoopOutput.enable(&mut interface);
        Feature::NoopPort.enable(&mut interface);
        assert!(interface.noop_output && interface.noop_port);
    }
}
