//! What an association may be, and its message: each error has the path of the leaf, the cause and the fix.

use stoa_api::v1;
use stoa_crypto::{Algorithm, Fingerprint, NumberError};
use stoa_wire::esp;
use stoa_yang::error::ValidationErrors;

use super::entry_path;
use crate::config::model::{DfBit, SaConfig, SaDirection, SadEntry};

/// How to make a key of so many bytes.
fn fix(bytes: usize) -> String {
    format!(
        "Set {bytes} bytes, for example those of `openssl rand -hex {bytes} | sed 's/../&:/g; s/:$//'`."
    )
}

/// The message of an entry, and what tells its key from others if its nonces must be unique. `None`: there are errors.
pub(super) fn association(
    entry: &SadEntry,
    errors: &mut ValidationErrors,
) -> Option<(v1::SecurityAssociation, Option<Fingerprint>)> {
    let of = &entry.ipsec_sa_config;
    let path = format!("{}/ipsec-sa-config", entry_path(&entry.name));
    let key = of.esp_sa.encryption.key.bytes();
    let (algorithm, implicit_iv) = algorithm(of, key.len(), &path, errors)?;
    let salt = of.esp_sa.encryption.iv.bytes();
    let integrity_key = of.esp_sa.integrity.key.bytes();
    let mut is_valid = check_lengths(algorithm, (salt.len(), integrity_key.len()), &path, errors);
    let is_inbound = entry.direction == SaDirection::Inbound;
    if is_inbound && of.ext_seq_num && of.anti_replay_window_size == 0 {
        is_valid = false;
        errors.add(
            format!("{path}/anti-replay-window-size"),
            "extended sequence numbers need an anti-replay window (RFC 4303 section 3.4.3)",
            "Set 64 to 65536, or ext-seq-num to false at both ends.",
        );
    }
    let udp = of.encapsulation_type;
    if let Some(sport) = udp.map(|it| it.sport).filter(|it| *it != u32::from(esp::UDP_PORT)) {
        is_valid = false;
        errors.add(
            format!("{path}/encapsulation-type/sport"),
            format!("what the other end sends to port {sport} does not reach ESP"),
            format!("Set it to {}.", esp::UDP_PORT),
        );
    }
    if !is_valid {
        return None;
    }
    let unique = algorithm.needs_unique_nonces().then(|| Fingerprint::of(&key));
    let direction = match is_inbound {
        true => v1::IpsecDirection::IpsecInbound,
        false => v1::IpsecDirection::IpsecOutbound,
    };
    let message = v1::SecurityAssociation {
        name: entry.name.clone(),
        interface: entry.interface.clone(),
        direction: direction.into(),
        spi: of.spi,
        algorithm: algorithm.name().to_owned(),
        implicit_iv,
        key,
        salt,
        integrity_key,
        extended: of.ext_seq_num,
        window: if is_inbound { of.anti_replay_window_size } else { 0 },
        udp: udp.map(|it| v1::IpsecUdp { local_port: it.sport, remote_port: it.dport }),
        withheld: String::new(),
        ..outer_header(of, is_inbound)
    };
    Some((message, unique))
}

/// The outer headers of an outbound association.
fn outer_header(of: &SaConfig, is_inbound: bool) -> v1::SecurityAssociation {
    let none = v1::SecurityAssociation::default();
    if is_inbound {
        return none;
    }
    let dont_fragment = match of.tunnel.df_bit {
        DfBit::Copy => v1::DontFragment::DfCopy,
        DfBit::Set => v1::DontFragment::DfSet,
        DfBit::Clear => v1::DontFragment::DfClear,
    };
    let dscp = (!of.tunnel.bypass_dscp).then_some(of.tunnel.outer_dscp);
    v1::SecurityAssociation { dont_fragment: dont_fragment.into(), dscp, ..none }
}

/// The algorithm, and whether its IV is implicit.
fn algorithm(
    of: &SaConfig,
    key: usize,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<(Algorithm, bool)> {
    let encryption = of.esp_sa.encryption.encryption_algorithm;
    let integrity = of.esp_sa.integrity.integrity_algorithm;
    // HMAC-SHA2-256-128 where the encryption has no integrity of its own.
    let usual = if matches!(encryption, 11 | 12) { 12 } else { 0 };
    let error = match Algorithm::from_numbers((encryption, integrity.unwrap_or(usual)), key) {
        Ok(found) => return Some(found),
        Err(error) => error,
    };
    let (leaf, fix) = match error {
        NumberError::Encryption(_) => (
            "encryption/encryption-algorithm",
            "Set 12 (AES-CBC), 20 (AES-GCM), 28 (ChaCha20-Poly1305), 21 (AES-GMAC), 11 (none), 30 or 31 (as 20 and 28, \
             with an implicit IV)."
                .to_owned(),
        ),
        NumberError::Key { lengths: "0", .. } => {
            ("encryption/key", "Remove it: nothing is encrypted.".to_owned())
        }
        NumberError::Key { lengths: "32", .. } => ("encryption/key", fix(32)),
        NumberError::Key { .. } => ("encryption/key", format!("{} Or 32 bytes.", fix(16))),
        NumberError::Integrity { supported, .. } => {
            ("integrity/integrity-algorithm", format!("Set it to {supported}."))
        }
    };
    errors.add(format!("{path}/esp-sa/{leaf}"), error.to_string(), fix);
    None
}

/// Whether the salt and the key for integrity have their lengths.
fn check_lengths(
    algorithm: Algorithm,
    (salt, integrity): (usize, usize),
    path: &str,
    errors: &mut ValidationErrors,
) -> bool {
    let cases = [
        ("encryption/iv", "salt", salt, algorithm.salt_bytes()),
        ("integrity/key", "key for integrity", integrity, algorithm.integrity_key_bytes()),
    ];
    let mut is_valid = true;
    for (leaf, what, given, needed) in cases {
        if given == needed {
            continue;
        }
        is_valid = false;
        let name = algorithm.name();
        let (cause, fix) = match needed {
            0 => (format!("{name} has no {what}"), "Remove it.".to_owned()),
            _ => (format!("the {what} of {name} has {needed} bytes, not {given}"), fix(needed)),
        };
        errors.add(format!("{path}/esp-sa/{leaf}"), cause, fix);
    }
    is_valid
}
