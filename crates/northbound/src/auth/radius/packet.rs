//! RADIUS requests, and the verification of responses.
//!
//! The shared secret hides the password (RFC 2865, section 5.2) and authenticates responses twice: by the Response
//! Authenticator, plain MD5 that an attacker on the path can forge (CVE-2024-3596), and by Message-Authenticator, an
//! HMAC. A response without the latter is discarded.

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use stoa_controller::config::management::{GroupAttribute, Radius, User};
use stoa_wire::radius::{self, AUTHENTICATOR_LENGTH, View};

use crate::auth::secret;

/// Maximum length of a password, in bytes: RFC 2865, section 5.2.
pub const PASSWORD_MAX: usize = 128;
/// Maximum number of groups in a response.
const GROUPS_MAX: usize = 64;
/// Maximum number of Class attributes that are kept.
const CLASSES_MAX: usize = 8;
/// The least seconds between reports (RFC 2869 section 5.16).
const INTERIM_MIN_S: u32 = 60;
/// Maximum length of a group name in bytes, as in the configuration.
const GROUP_MAX: usize = 64;

/// An Access-Request.
#[derive(Debug)]
pub struct Request {
    /// The whole packet.
    pub packet: Vec<u8>,
    authenticator: [u8; AUTHENTICATOR_LENGTH],
}

/// The response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Access-Accept.
    Accepted {
        /// Values of the attribute that names groups.
        groups: Vec<String>,
        /// Service-Type is Administrative.
        is_administrative: bool,
        /// What a host may do that logs in.
        grants: Grants,
    },
    /// Access-Reject.
    Rejected,
    /// Access-Challenge, which is not supported.
    Challenged,
}

/// What a server grants a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Seconds after which its login ends.
    pub session_s: Option<u32>,
    /// Seconds without packets after which its login ends.
    pub idle_s: Option<u32>,
    /// Seconds between reports while the login lasts.
    pub interim_s: Option<u32>,
    /// What all reports repeat (RFC 2865 section 5.25).
    pub class: Vec<Vec<u8>>,
}

impl Grants {
    /// Those of an answer.
    fn of(view: &View<'_>) -> Self {
        let number = |kind: u8| {
            let value = view.values(kind).next()?.first_chunk().copied().map(u32::from_be_bytes);
            value.filter(|it| *it > 0)
        };
        Self {
            session_s: number(radius::SESSION_TIMEOUT),
            idle_s: number(radius::IDLE_TIMEOUT),
            interim_s: number(radius::ACCT_INTERIM_INTERVAL).map(|it| it.max(INTERIM_MIN_S)),
            class: view.values(radius::CLASS).take(CLASSES_MAX).map(<[u8]>::to_vec).collect(),
        }
    }
}

/// The host from which a user logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// The interface.
    pub interface: String,
    /// The MAC address.
    pub mac: [u8; 6],
}

impl Station {
    /// The MAC address as RFC 3580 section 3.21 writes it.
    pub fn name(&self) -> String {
        let [a, b, c, d, e, f] = self.mac;
        format!("{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{f:02X}")
    }
}

/// The user to authenticate.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The name.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// The address of the client, as text; of a host, its MAC address.
    pub from: &'a str,
    /// The host that logs in; `None`: a user manages this router.
    pub station: Option<&'a Station>,
}

pub(super) type Tag = Hmac<Md5>;

/// The HMAC of a packet whose Message-Authenticator is zero, under the secret.
pub(super) fn tag(secret: &[u8], parts: &[&[u8]]) -> Tag {
    // HMAC accepts a key of any length.
    let mut tag = Tag::new_from_slice(secret).unwrap_or_else(|_| Tag::new(&Default::default()));
    for part in parts {
        tag.update(part);
    }
    tag
}

pub(super) fn md5(parts: &[&[u8]]) -> [u8; AUTHENTICATOR_LENGTH] {
    let mut digest = Md5::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().into()
}

/// The hidden password: RFC 2865, section 5.2.
fn hidden(password: &str, secret: &[u8], authenticator: &[u8; AUTHENTICATOR_LENGTH]) -> Vec<u8> {
    let blocks = password.len().div_ceil(AUTHENTICATOR_LENGTH).max(1);
    let mut hidden = password.as_bytes().to_vec();
    hidden.resize(blocks * AUTHENTICATOR_LENGTH, 0);
    let mut before = *authenticator;
    for block in hidden.chunks_exact_mut(AUTHENTICATOR_LENGTH) {
        let pad = md5(&[secret, &before]);
        block.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
        before.copy_from_slice(block);
    }
    hidden
}

/// The text, cut to the maximum length of an attribute.
pub(super) fn value(text: &str) -> &[u8] {
    let bytes = text.as_bytes();
    &bytes[..bytes.len().min(radius::VALUE_MAX)]
}

impl Request {
    /// A request for these credentials. `None`: they do not fit into a packet.
    pub fn new(credentials: Credentials<'_>, name: &str, shared_secret: &str) -> Option<Request> {
        let Credentials { user, password, from, station } = credentials;
        if password.len() > PASSWORD_MAX || password.is_empty() || user.len() > radius::VALUE_MAX {
            return None;
        }
        let random = secret::random();
        let (mut authenticator, mut identifier) = ([0; AUTHENTICATOR_LENGTH], [0; 1]);
        authenticator.copy_from_slice(&random[..AUTHENTICATOR_LENGTH]);
        identifier.copy_from_slice(&random[AUTHENTICATOR_LENGTH..=AUTHENTICATOR_LENGTH]);
        let hidden = hidden(password, shared_secret.as_bytes(), &authenticator);
        let (port, service) = match station {
            Some(_) => (radius::PORT_ETHERNET, radius::SERVICE_LOGIN),
            None => (radius::PORT_VIRTUAL, radius::SERVICE_NAS_PROMPT),
        };
        let (port, service) = (port.to_be_bytes(), service.to_be_bytes());
        let port_id = station.map(|it| (radius::NAS_PORT_ID, value(&it.interface)));
        // Message-Authenticator comes first: no chosen prefix can then make two packets collide in MD5.
        let attributes: [(u8, &[u8]); _] = [
            (radius::MESSAGE_AUTHENTICATOR, &[0; AUTHENTICATOR_LENGTH]),
            (radius::USER_NAME, user.as_bytes()),
            (radius::USER_PASSWORD, &hidden),
            (radius::NAS_IDENTIFIER, value(name)),
            (radius::NAS_PORT_TYPE, &port),
            (radius::SERVICE_TYPE, &service),
            (radius::CALLING_STATION_ID, value(from)),
        ];
        let mut packet = vec![0; radius::LENGTH_MAX];
        let code = radius::ACCESS_REQUEST;
        let attributes: Vec<_> = attributes.into_iter().chain(port_id).collect();
        let length = radius::build(&mut packet, code, identifier[0], authenticator, &attributes);
        packet.truncate(length.ok()?);
        let tag = tag(shared_secret.as_bytes(), &[&packet]).finalize().into_bytes();
        let at = radius::LENGTH + 2;
        packet[at..at + AUTHENTICATOR_LENGTH].copy_from_slice(&tag);
        Some(Request { packet, authenticator })
    }

    /// The response in these bytes; `None`: it is not an authentic response to this request.
    pub fn reply(&self, bytes: &[u8], secret: &str, groups: GroupAttribute) -> Option<Reply> {
        let view = radius::check(bytes).ok()?;
        if view.header().identifier != self.packet[1] || !self.is_proved(&view, secret.as_bytes()) {
            return None;
        }
        match view.header().code {
            radius::ACCESS_ACCEPT => {
                let administrative = radius::SERVICE_ADMINISTRATIVE.to_be_bytes();
                let mut services = view.values(radius::SERVICE_TYPE);
                Some(Reply::Accepted {
                    groups: named(&view, groups),
                    is_administrative: services.any(|service| service == administrative),
                    grants: Grants::of(&view),
                })
            }
            radius::ACCESS_REJECT => Some(Reply::Rejected),
            radius::ACCESS_CHALLENGE => Some(Reply::Challenged),
            _ => None,
        }
    }

    fn is_proved(&self, view: &View<'_>, secret: &[u8]) -> bool {
        let packet = view.packet();
        let (head, attributes) = packet.split_at(radius::LENGTH);
        let mut proofs = view.attributes().filter(|one| one.kind == radius::MESSAGE_AUTHENTICATOR);
        let (Some(proof), None) = (proofs.next(), proofs.next()) else { return false };
        if proof.value.len() != AUTHENTICATOR_LENGTH {
            return false;
        }
        let end = proof.at + AUTHENTICATOR_LENGTH;
        let zero = [0; AUTHENTICATOR_LENGTH];
        let (before, after) = (&packet[radius::LENGTH..proof.at], &packet[end..]);
        let tag = tag(secret, &[&head[..4], &self.authenticator, before, &zero, after]);
        let digest = md5(&[&head[..4], &self.authenticator, attributes, secret]);
        let shown = &view.header().authenticator;
        tag.verify_slice(proof.value).is_ok()
            && aws_lc_rs::constant_time::verify_slices_are_equal(&digest, shown).is_ok()
    }
}

/// The groups in a response; invalid names are omitted.
fn named(view: &View<'_>, attribute: GroupAttribute) -> Vec<String> {
    let kind = match attribute {
        GroupAttribute::ManagementPolicyId => radius::MANAGEMENT_POLICY_ID,
        GroupAttribute::FilterId => radius::FILTER_ID,
        GroupAttribute::Class => radius::CLASS,
    };
    let texts = view.values(kind).filter_map(|value| std::str::from_utf8(value).ok());
    let is_name =
        |text: &&str| (1..=GROUP_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    texts.filter(is_name).take(GROUPS_MAX).map(str::to_owned).collect()
}

impl Reply {
    /// What the server grants a host.
    pub fn grants(&self) -> Grants {
        match self {
            Reply::Accepted { grants, .. } => grants.clone(),
            Reply::Rejected | Reply::Challenged => Grants::default(),
        }
    }

    /// The user of a response; `None`: the server did not accept the user.
    pub fn user(self, name: &str, settings: &Radius) -> Option<User> {
        let Reply::Accepted { groups, is_administrative, .. } = self else { return None };
        let admin = is_administrative && settings.administrators;
        Some(User { name: name.to_owned(), password_hash: None, group: groups, admin })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) const SECRET: &str = "a secret of both";

    /// A response of a server; without `proved`, one without Message-Authenticator.
    pub(crate) fn answer(
        request: &[u8],
        code: u8,
        secret: &str,
        attributes: &[(u8, &[u8])],
        proved: bool,
    ) -> Vec<u8> {
        let mut asked = [0; AUTHENTICATOR_LENGTH];
        asked.copy_from_slice(&request[4..radius::LENGTH]);
        let proof = (radius::MESSAGE_AUTHENTICATOR, &[0; AUTHENTICATOR_LENGTH][..]);
        let all = proved.then_some(proof).into_iter().chain(attributes.iter().copied());
        let all: Vec<(u8, &[u8])> = all.collect();
        let mut packet = vec![0; radius::LENGTH_MAX];
        let length = radius::build(&mut packet, code, request[1], asked, &all).unwrap();
        packet.truncate(length);
        if proved {
            let tag = tag(secret.as_bytes(), &[&packet]).finalize().into_bytes();
            packet[22..38].copy_from_slice(&tag);
        }
        let digest = md5(&[&packet, secret.as_bytes()]);
        packet[4..20].copy_from_slice(&digest);
        packet
    }

    fn request() -> Request {
        let credentials = Credentials {
            user: "ann",
            password: "correct horse",
            from: "192.0.2.1",
            station: None,
        };
        Request::new(credentials, "edge", SECRET).unwrap()
    }

    #[test]
    fn the_password_is_hidden_as_in_the_rfc() {
        // RFC 2865, section 7.1.
        let authenticator = [
            0x0f, 0x40, 0x3f, 0x94, 0x73, 0x97, 0x80, 0x57, 0xbd, 0x83, 0xd5, 0xcb, 0x98, 0xf4,
            0x22, 0x7a,
        ];
        let expected = [
            0x0d, 0xbe, 0x70, 0x8d, 0x93, 0xd4, 0x13, 0xce, 0x31, 0x96, 0xe4, 0x3f, 0x78, 0x2a,
            0x0a, 0xee,
        ];
        assert_eq!(hidden("arctangent", b"xyzzy5461", &authenticator), expected);
        assert_eq!(hidden(&"x".repeat(17), b"s", &authenticator).len(), 32);
    }

    #[test]
    fn a_response_needs_both_authenticators() {
        let request = request();
        let view = radius::check(&request.packet).unwrap();
        let first = view.attributes().next().unwrap();
        assert_eq!(first.kind, radius::MESSAGE_AUTHENTICATOR);
        let reply_to = |bytes: &[u8]| request.reply(bytes, SECRET, GroupAttribute::default());
        let groups = [
            (radius::MANAGEMENT_POLICY_ID, &b"noc"[..]),
            (radius::MANAGEMENT_POLICY_ID, &b"bad\n"[..]),
            (radius::FILTER_ID, &b"other"[..]),
            (radius::SERVICE_TYPE, &[0, 0, 0, 6][..]),
        ];
        let good = answer(&request.packet, radius::ACCESS_ACCEPT, SECRET, &groups, true);
        let reply = reply_to(&good).unwrap();
        let grants = Grants::default();
        let accepted =
            Reply::Accepted { groups: vec!["noc".into()], is_administrative: true, grants };
        assert_eq!(reply, accepted);
        let careful = Radius::default();
        assert!(
            !reply.clone().user("ann", &careful).unwrap().admin,
            "not permitted by the configuration"
        );
        let trusting = Radius { administrators: true, ..Radius::default() };
        assert!(reply.user("ann", &trusting).unwrap().admin);

        let plain = answer(&request.packet, radius::ACCESS_ACCEPT, SECRET, &groups, false);
        assert_eq!(reply_to(&plain), None, "MD5 alone can be forged");
        let other = answer(&request.packet, radius::ACCESS_ACCEPT, "another secret", &[], true);
        assert_eq!(reply_to(&other), None);
        let to_another = answer(&self::request().packet, radius::ACCESS_ACCEPT, SECRET, &[], true);
        assert_eq!(reply_to(&to_another), None);
        let twice = [(radius::MESSAGE_AUTHENTICATOR, &[0; 16][..])];
        assert_eq!(reply_to(&answer(&request.packet, 2, SECRET, &twice, true)), None);
        for (code, reply) in [(3, Reply::Rejected), (11, Reply::Challenged)] {
            assert_eq!(reply_to(&answer(&request.packet, code, SECRET, &[], true)), Some(reply));
        }
        assert_eq!(reply_to(&request.packet), None, "a request is not a response");
    }

    #[test]
    fn credentials_that_do_not_fit_are_refused() {
        let ask = |user: &str, password: &str| {
            let credentials = Credentials { user, password, from: "", station: None };
            Request::new(credentials, "edge", SECRET).is_some()
        };
        assert!(ask("ann", &"x".repeat(PASSWORD_MAX)) && !ask("ann", &"x".repeat(129)));
        assert!(!ask(&"x".repeat(254), "x") && !ask("ann", ""));
    }

    proptest! {
        /// No bit of a valid response can change.
        #[test]
        fn a_changed_response_is_discarded(bit in 0..(20 + 18 + 5) * 8_usize) {
            let request = request();
            let groups = [(radius::MANAGEMENT_POLICY_ID, &b"noc"[..])];
            let mut bytes = answer(&request.packet, 2, SECRET, &groups, true);
            prop_assert_eq!(bytes.len(), 43);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(request.reply(&bytes, SECRET, GroupAttribute::default()), None);
        }
    }
}
