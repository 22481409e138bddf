//! Records that repeat within a minute: the first few are written, the others are counted and written as one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use super::AuditRecord;
use crate::auth::secret;
use crate::server::source::client;

/// The time in which repeated records are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of different records that are counted at a time.
const KEYS: usize = 4_096;
/// Maximum length of a value that is kept, in bytes.
const VALUE_BYTES: usize = 512;

/// When records count as repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Records of one kind that are written before they are counted.
    written: u32,
    /// Records of all kinds that are written in the time of one window.
    all: u32,
    /// Users of one address that are counted separately.
    users: usize,
    /// Whether action and result must be the same, too.
    is_exact: bool,
}

impl Policy {
    /// Every action is written, except a script that repeats the same one.
    pub const EXACT: Policy =
        Policy { written: 100, all: u32::MAX, users: usize::MAX, is_exact: true };
    /// Refused requests of one user from one address are of one kind, whatever they ask for.
    pub const COARSE: Policy = Policy { written: 10, all: 2_000, users: 16, is_exact: false };
}

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The same action with the same result, by a digest: texts can be long.
    Exact(IpAddr, [u8; 16]),
    /// A user from an address.
    User(IpAddr, String),
    /// The further users of an address.
    Address(IpAddr),
    /// The further addresses.
    Other,
}

/// Records that were counted.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    user: String,
    from: Option<IpAddr>,
    client: String,
    what: String,
    result: String,
    /// The time of the first one.
    pub first: SystemTime,
    /// The time of the last one, which stands for all.
    pub last: SystemTime,
    /// Their number.
    pub count: u64,
}

impl Counted {
    fn update(&mut self, record: &AuditRecord<'_>) {
        let short = |text: &str| {
            let end =
                (0..=VALUE_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(0)].to_owned()
        };
        self.user = short(record.user);
        self.from = record.from;
        self.client = short(record.client);
        (self.what, self.result) = (short(record.what), short(record.result));
        self.last = SystemTime::now();
        self.count += 1;
    }

    fn new(record: &AuditRecord<'_>) -> Counted {
        let now = SystemTime::now();
        let empty = String::new;
        let mut counted = Counted {
            user: empty(),
            from: None,
            client: empty(),
            what: empty(),
            result: empty(),
            first: now,
            last: now,
            count: 0,
        };
        counted.update(record);
        counted
    }

    /// The last record, which stands for all.
    pub fn record(&self) -> AuditRecord<'_> {
        let Counted { user, from, client, what, result, .. } = self;
        AuditRecord { user, from: *from, client, what, result }
    }
}

/// 128 bits that tell these texts from others, with their lengths.
fn short_digest(texts: [&str; 4]) -> [u8; 16] {
    let lengths = texts.map(|text| text.len().to_be_bytes());
    let parts: Vec<&[u8]> = lengths
        .iter()
        .zip(texts)
        .flat_map(|(length, text)| [&length[..], text.as_bytes()])
        .collect();
    let mut short = [0; 16];
    short.copy_from_slice(&secret::digest(&parts)[..16]);
    short
}

#[derive(Debug)]
struct Window {
    since: Instant,
    written: u32,
    counted: Option<Counted>,
}

/// The records of the last minute.
#[derive(Debug)]
pub(super) struct Repeats {
    policy: Policy,
    windows: HashMap<Kind, Window>,
    /// Users of an address that are counted separately.
    users: HashMap<IpAddr, usize>,
    /// The start of a minute, and the records that were written since.
    all: Option<(Instant, u32)>,
    /// When the windows were last searched for those that are over.
    looked: Option<Instant>,
}

impl Repeats {
    pub fn new(policy: Policy) -> Repeats {
        Repeats { policy, windows: HashMap::new(), users: HashMap::new(), all: None, looked: None }
    }

    /// Whether a record is to be written now; otherwise it is counted.
    pub fn is_written(&mut self, record: &AuditRecord<'_>, now: Instant) -> bool {
        let Some(kind) = self.kind(record) else { return true };
        let all = match self.all {
            Some((since, written)) if now.duration_since(since) < WINDOW => (since, written),
            _ => (now, 0),
        };
        let policy = self.policy;
        let fresh = || Window { since: now, written: 0, counted: None };
        let window = self.windows.entry(kind).or_insert_with(fresh);
        let is_written = window.written < policy.written && all.1 < policy.all;
        match (&mut window.counted, is_written) {
            (_, true) => window.written += 1,
            (Some(counted), false) => counted.update(record),
            (none, false) => *none = Some(Counted::new(record)),
        }
        self.all = Some((all.0, all.1.saturating_add(u32::from(is_written))));
        is_written
    }

    /// What the record is counted with; `None`: nothing, it is written.
    fn kind(&mut self, record: &AuditRecord<'_>) -> Option<Kind> {
        let nowhere = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let from = record.from.map_or(nowhere, |from| client(from.to_canonical()));
        let AuditRecord { user, client, what, result, .. } = *record;
        let is_full = self.windows.len() >= KEYS;
        if self.policy.is_exact {
            let kind = Kind::Exact(from, short_digest([user, client, what, result]));
            return (!is_full || self.windows.contains_key(&kind)).then_some(kind);
        }
        let kind = Kind::User(from, user.chars().take(64).collect());
        if self.windows.contains_key(&kind) {
            return Some(kind);
        }
        let users = self.users.entry(from).or_default();
        if !is_full && *users < self.policy.users {
            *users += 1;
            return Some(kind);
        }
        let kind = Kind::Address(from);
        match !is_full || self.windows.contains_key(&kind) {
            true => Some(kind),
            false => Some(Kind::Other),
        }
    }

    /// Takes the counts of the windows that are over.
    pub fn over(&mut self, now: Instant) -> Vec<Counted> {
        let pause = Duration::from_secs(1);
        if self.looked.is_some_and(|looked| now.duration_since(looked) < pause) {
            return Vec::new();
        }
        self.looked = Some(now);
        self.take(|window| now.duration_since(window.since) >= WINDOW)
    }

    /// Takes all counts.
    pub fn end(&mut self) -> Vec<Counted> {
        self.take(|_| true)
    }

    fn take(&mut self, is_over: impl Fn(&Window) -> bool) -> Vec<Counted> {
        let mut counts = Vec::new();
        let users = &mut self.users;
        self.windows.retain(|kind, window| {
            if !is_over(window) {
                return true;
            }
            counts.extend(window.counted.take());
            if let Kind::User(from, _) = kind
                && let Some(count) = users.get_mut(from)
            {
                *count = count.saturating_sub(1);
            }
            false
        });
        users.retain(|_, count| *count > 0);
        counts
    }
}
