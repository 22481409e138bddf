//! Security associations of the contract: their texts, without their keys.

use std::fmt;

use crate::v1;

impl v1::IpsecDirection {
    /// Its name in YANG and in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IpsecInbound => "inbound",
            Self::IpsecOutbound => "outbound",
        }
    }
}

/// An association without its keys and salt: for operators, and for audits.
#[must_use]
pub fn without_keys(association: &v1::SecurityAssociation) -> v1::SecurityAssociation {
    // Field by field, so that a copy of a key never exists.
    let v1::SecurityAssociation {
        name,
        interface,
        direction,
        spi,
        algorithm,
        implicit_iv,
        key: _,
        salt: _,
        integrity_key: _,
        extended,
        window,
        dont_fragment,
        dscp,
        udp,
        withheld,
    } = association;
    v1::SecurityAssociation {
        name: name.clone(),
        interface: interface.clone(),
        direction: *direction,
        spi: *spi,
        algorithm: algorithm.clone(),
        implicit_iv: *implicit_iv,
        key: Vec::new(),
        salt: Vec::new(),
        integrity_key: Vec::new(),
        extended: *extended,
        window: *window,
        dont_fragment: *dont_fragment,
        dscp: *dscp,
        udp: *udp,
        withheld: withheld.clone(),
    }
}

/// Without keys: messages may end up in a log.
impl fmt::Debug for v1::SecurityAssociation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecurityAssociation")
            .field("name", &self.name)
            .field("interface", &self.interface)
            .field("direction", &self.direction().name())
            .field("spi", &self.spi)
            .field("algorithm", &self.algorithm)
            .field("withheld", &self.withheld)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_left_out() {
        let with_keys = v1::SecurityAssociation {
            name: "out".to_owned(),
            spi: 256,
            key: vec![0xa7; 16],
            salt: vec![0xa7; 4],
            integrity_key: vec![0xa7; 20],
            ..v1::SecurityAssociation::default()
        };
        let text = format!("{:?}", v1::Ipsec { associations: vec![with_keys.clone()], boot_id: 0 });
        assert!(text.contains("\"out\"") && !text.contains("167"), "{text}");
        let without = without_keys(&with_keys);
        assert!(without.key.is_empty() && without.salt.is_empty());
        assert!(without.integrity_key.is_empty() && without.spi == 256);
    }
}
