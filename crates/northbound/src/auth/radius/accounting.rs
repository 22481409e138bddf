//! RADIUS accounting (RFC 2866): reports about logins of hosts, and the verification of answers.

use std::net::IpAddr;

use hmac::Mac;
use stoa_controller::login::{Cause, Event, Method, Session, clock_s, unix_s};
use stoa_wire::radius::{self, AUTHENTICATOR_LENGTH};

use super::packet::{Station, md5, tag, value};
use crate::auth::secret;

/// A report about a login.
#[derive(Clone, Debug)]
pub struct Report {
    session: Session,
    status: u32,
    cause: Option<Cause>,
    /// When it happened, see [`clock_s`].
    at_s: u64,
}

/// An Accounting-Request.
#[derive(Debug)]
pub struct AccountingRequest {
    /// The whole packet.
    pub packet: Vec<u8>,
}

/// The lower and the upper 32 bits.
fn halves(value: u64) -> [[u8; 4]; 2] {
    [(value as u32).to_be_bytes(), ((value >> 32) as u32).to_be_bytes()]
}

impl Report {
    /// What has happened, and when (see [`clock_s`]).
    pub fn of(event: Event, at_s: u64) -> Self {
        let (session, status, cause) = match event {
            Event::Started(session) => (session, radius::STATUS_START, None),
            Event::Interim(session) => (session, radius::STATUS_INTERIM, None),
            Event::Stopped(session, cause) => (session, radius::STATUS_STOP, Some(cause)),
        };
        Self { session, status, cause, at_s }
    }

    /// The number of the login.
    pub fn login(&self) -> u64 {
        self.session.id
    }

    /// When it happened, see [`clock_s`].
    pub fn at_s(&self) -> u64 {
        self.at_s
    }

    /// Whether a later report of the login says more.
    pub fn is_interim(&self) -> bool {
        self.status == radius::STATUS_INTERIM
    }

    /// Whether the login has ended.
    pub fn is_stop(&self) -> bool {
        self.status == radius::STATUS_STOP
    }

    /// The request with this NAS-Identifier; `None`: it does not fit.
    pub fn request(&self, name: &str, shared_secret: &str) -> Option<AccountingRequest> {
        let Self { session, status, cause, at_s } = self;
        // Linux's clock may have been set since.
        let delay = clock_s().saturating_sub(*at_s);
        let four = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes();
        let station = Station { interface: session.interface.clone(), mac: session.mac };
        let (station, id) = (station.name(), session.session_id());
        let authentic = match session.method {
            Method::Radius => radius::AUTHENTIC_RADIUS,
            Method::Local | Method::Api => radius::AUTHENTIC_LOCAL,
        };
        let ([in_low, in_high], [out_low, out_high]) =
            (halves(session.total().in_bytes), halves(session.total().out_bytes));
        let mut attributes: Vec<(u8, Vec<u8>)> = vec![
            (radius::MESSAGE_AUTHENTICATOR, vec![0; AUTHENTICATOR_LENGTH]),
            (radius::ACCT_STATUS_TYPE, status.to_be_bytes().to_vec()),
            (radius::ACCT_SESSION_ID, id.into_bytes()),
            (radius::USER_NAME, value(&session.user).to_vec()),
            (radius::NAS_IDENTIFIER, value(name).to_vec()),
            (radius::NAS_PORT_ID, value(&session.interface).to_vec()),
            (radius::NAS_PORT_TYPE, radius::PORT_ETHERNET.to_be_bytes().to_vec()),
            (radius::CALLING_STATION_ID, station.into_bytes()),
            (radius::ACCT_AUTHENTIC, authentic.to_be_bytes().to_vec()),
            (radius::EVENT_TIMESTAMP, four(unix_s().saturating_sub(delay)).to_vec()),
            (radius::ACCT_DELAY_TIME, four(delay).to_vec()),
        ];
        match session.address.parse() {
            Ok(IpAddr::V4(it)) => {
                attributes.push((radius::FRAMED_IP_ADDRESS, it.octets().to_vec()));
            }
            Ok(IpAddr::V6(it)) => {
                attributes.push((radius::FRAMED_IPV6_ADDRESS, it.octets().to_vec()));
            }
            Err(_) => {}
        }
        attributes.extend(session.class.iter().map(|it| (radius::CLASS, it.clone())));
        if *status != radius::STATUS_START {
            attributes.extend([
                (radius::ACCT_SESSION_TIME, four(session.age_s(*at_s)).to_vec()),
                (radius::ACCT_INPUT_OCTETS, in_low.to_vec()),
                (radius::ACCT_INPUT_GIGAWORDS, in_high.to_vec()),
                (radius::ACCT_OUTPUT_OCTETS, out_low.to_vec()),
                (radius::ACCT_OUTPUT_GIGAWORDS, out_high.to_vec()),
                (radius::ACCT_INPUT_PACKETS, halves(session.total().in_packets)[0].to_vec()),
                (radius::ACCT_OUTPUT_PACKETS, halves(session.total().out_packets)[0].to_vec()),
            ]);
        }
        if let Some(cause) = cause {
            attributes.push((radius::ACCT_TERMINATE_CAUSE, cause.radius().to_be_bytes().to_vec()));
        }
        AccountingRequest::new(&attributes, shared_secret)
    }
}

impl AccountingRequest {
    /// A request whose first attribute is a Message-Authenticator of zeros.
    fn new(attributes: &[(u8, Vec<u8>)], shared_secret: &str) -> Option<Self> {
        let attributes: Vec<(u8, &[u8])> =
            attributes.iter().map(|(kind, value)| (*kind, value.as_slice())).collect();
        let [identifier, ..] = secret::random();
        let (mut packet, zeros) = (vec![0; radius::LENGTH_MAX], [0; AUTHENTICATOR_LENGTH]);
        let code = radius::ACCOUNTING_REQUEST;
        let length = radius::build(&mut packet, code, identifier, zeros, &attributes).ok()?;
        packet.truncate(length);
        // Over a Request Authenticator of zeros, as the authenticator itself (RFC 2866 section 3).
        let proof = tag(shared_secret.as_bytes(), &[&packet]).finalize().into_bytes();
        let at = radius::LENGTH + 2;
        packet[at..at + AUTHENTICATOR_LENGTH].copy_from_slice(&proof);
        let authenticator = md5(&[&packet, shared_secret.as_bytes()]);
        packet[4..radius::LENGTH].copy_from_slice(&authenticator);
        Some(Self { packet })
    }

    /// Whether these bytes are an authentic answer. Servers need not send a Message-Authenticator in it.
    pub fn is_answer(&self, bytes: &[u8], shared_secret: &str) -> bool {
        let Ok(view) = radius::check(bytes) else { return false };
        let header = view.header();
        if header.code != radius::ACCOUNTING_RESPONSE || header.identifier != self.packet[1] {
            return false;
        }
        let (head, attributes) = view.packet().split_at(radius::LENGTH);
        let own = &self.packet[4..radius::LENGTH];
        let digest = md5(&[&head[..4], own, attributes, shared_secret.as_bytes()]);
        let shown = &header.authenticator;
        aws_lc_rs::constant_time::verify_slices_are_equal(&digest, shown).is_ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use stoa_api::login::Key;
    use stoa_controller::login::Limits;
    use stoa_controller::login::sessions::{New, Sessions};

    use super::*;
    use stoa_api::v1;

    const SECRET: &str = "a secret of both";

    pub fn session() -> Session {
        session_of(7)
    }

    pub fn session_of(id: u64) -> Session {
        let mut sessions = Sessions::default();
        let host = Key { interface: "guests".to_owned(), mac: [2, 0, 0, 0, 0, 0xab] };
        let new = New {
            host,
            id,
            user: "ann".to_owned(),
            method: Method::Radius,
            limits: Limits::default(),
            hosts_most: None,
            address: "10.0.0.9".to_owned(),
            class: vec![vec![1, 2], vec![3]],
            interim_s: None,
        };
        sessions.begin(new, 1_000).unwrap();
        let counted = v1::LoginState {
            interface: "guests".to_owned(),
            mac: vec![2, 0, 0, 0, 0, 0xab],
            id,
            in_bytes: 5 << 32 | 9,
            ..v1::LoginState::default()
        };
        sessions.count(&[counted], 1, 1_000);
        sessions.all().next().unwrap().clone()
    }

    #[test]
    fn reports_have_what_accounting_needs() {
        // The event, not the time of the request.
        let report = Report::of(Event::Stopped(session(), Cause::IdleTimeout), 1_060);
        let request = report.request("edge", SECRET).unwrap();
        let view = radius::check(&request.packet).unwrap();
        assert_eq!(view.header().code, radius::ACCOUNTING_REQUEST);
        let of = |kind| view.values(kind).next().unwrap_or_default().to_vec();
        assert_eq!(of(radius::ACCT_STATUS_TYPE), [0, 0, 0, 2]);
        assert_eq!(of(radius::ACCT_SESSION_ID), b"0000000000000007");
        assert_eq!(of(radius::CALLING_STATION_ID), b"02-00-00-00-00-AB");
        assert_eq!(of(radius::ACCT_INPUT_OCTETS), [0, 0, 0, 9]);
        assert_eq!(of(radius::ACCT_INPUT_GIGAWORDS), [0, 0, 0, 5]);
        assert_eq!(of(radius::ACCT_SESSION_TIME), [0, 0, 0, 60]);
        assert_eq!(of(radius::ACCT_TERMINATE_CAUSE), [0, 0, 0, 4]);
        assert_ne!(of(radius::ACCT_DELAY_TIME), [0; 4]);
        assert_eq!(of(radius::FRAMED_IP_ADDRESS), [10, 0, 0, 9]);
        assert_eq!(view.values(radius::CLASS).collect::<Vec<_>>(), [&[1, 2][..], &[3]]);
        // The authenticator is the digest over one of zeros.
        let mut zeroed = request.packet.clone();
        zeroed[4..20].fill(0);
        assert_eq!(md5(&[&zeroed, SECRET.as_bytes()]), request.packet[4..20]);
        let start = Report::of(Event::Started(session()), 1_000).request("edge", SECRET).unwrap();
        let view = radius::check(&start.packet).unwrap();
        assert_eq!(view.values(radius::ACCT_SESSION_TIME).count(), 0);
    }

    #[test]
    fn an_answer_needs_the_secret() {
        let request = Report::of(Event::Started(session()), 1).request("edge", SECRET).unwrap();
        let answer = |secret: &str| {
            let mut own = [0; AUTHENTICATOR_LENGTH];
            own.copy_from_slice(&request.packet[4..20]);
            let mut packet = vec![0; radius::LENGTH];
            let code = radius::ACCOUNTING_RESPONSE;
            radius::build(&mut packet, code, request.packet[1], own, &[]).unwrap();
            let digest = md5(&[&packet, secret.as_bytes()]);
            packet[4..20].copy_from_slice(&digest);
            packet
        };
        assert!(request.is_answer(&answer(SECRET), SECRET));
        assert!(!request.is_answer(&answer("another"), SECRET));
        assert!(!request.is_answer(&request.packet, SECRET));
    }
}
