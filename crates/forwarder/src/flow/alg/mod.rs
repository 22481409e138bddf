//! Application level gateways (ALG): protocols whose control connection names the ends of other connections.
//!
//! A rule or a policy of address translation names the gateway of a flow. Packets of such a flow are read, off the way
//! of all others: what one end announces is *expected* ([`expectations`]) and, if its address is translated, written
//! anew, so that sequence numbers change from there on ([`flows`]). The first packet of an expected connection begins a
//! flow that has the admission of the control connection.
//!
//! What a gateway cannot read passes as it is, and is counted by its cause.

pub mod calls;
pub mod expectations;
pub mod flows;
pub mod ports;
pub mod registers;

use std::sync::atomic::{AtomicU64, Ordering};

use stoa_wire::protocol::{TCP, UDP};

pub use calls::{CALL, Call, Calls, End, call_key, hosts_key};
pub use expectations::{
    Becomes, Control, Expectation, Expectations, Expected, ExpectedKey, Origin,
};
pub use flows::{AlgFlow, AlgFlows, Stream};
pub use ports::Ports;
pub use registers::Registers;

/// The bit of the number of a rule that expected connections have: a control connection of this rule announced them.
pub const EXPECTED: u32 = 1 << 23;

/// A protocol with a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Alg {
    /// FTP (RFC 959, RFC 2428).
    Ftp = 1,
    /// TFTP (RFC 1350).
    Tftp = 2,
    /// PPTP (RFC 2637).
    Pptp = 3,
    /// SIP over UDP (RFC 3261).
    Sip = 4,
}

impl Alg {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ftp, Self::Tftp, Self::Pptp, Self::Sip];

    /// Its name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Tftp => "tftp",
            Self::Pptp => "pptp",
            Self::Sip => "sip",
        }
    }

    /// The one with this number; `None`: there is none.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as u8 == number)
    }

    /// The one with this name; `None`: there is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The protocol of its control connections.
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Ftp | Self::Pptp => TCP,
            Self::Tftp | Self::Sip => UDP,
        }
    }

    /// The usual port of its servers.
    pub const fn port(self) -> u16 {
        match self {
            Self::Ftp => 21,
            Self::Tftp => 69,
            Self::Pptp => 1723,
            Self::Sip => 5060,
        }
    }

    /// Seconds that an announced connection is expected.
    pub const fn timeout_s(self) -> u32 {
        match self {
            // A client of FTP may wait for a reply on the control connection before it connects, and a call of PPTP
            // for its answer.
            Self::Ftp | Self::Pptp => 60,
            Self::Tftp => 30,
            // Who is called may take 3 minutes to answer (RFC 3261 section 16.6, timer C).
            Self::Sip => 180,
        }
    }
}

/// Why an announcement passes as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Passed {
    /// It is beyond what is read of a packet.
    TooLong,
    /// Its line or message does not end in its segment, or does not begin there.
    Split,
    /// It is malformed.
    Malformed,
    /// It names another host than its sender, a port below 1024, or a call that nobody has begun.
    Foreign,
    /// The checksum of its packet is wrong.
    Checksum,
    /// There are as many expectations of a host, or of all, as there may be, or no external port is free.
    Full,
    /// Its packet has no room for the new text.
    NoRoom,
    /// There are as many expectations between its two hosts as there may be.
    FullPair,
}

impl Passed {
    /// All causes, ordered so that `ALL[cause as usize] == cause`.
    pub const ALL: [Self; 8] = [
        Self::TooLong,
        Self::Split,
        Self::Malformed,
        Self::Foreign,
        Self::Checksum,
        Self::Full,
        Self::NoRoom,
        Self::FullPair,
    ];

    /// Its name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too-long",
            Self::Split => "split",
            Self::Malformed => "malformed",
            Self::Foreign => "foreign",
            Self::Checksum => "bad-checksum",
            Self::Full => "full",
            Self::NoRoom => "no-room",
            Self::FullPair => "full-pair",
        }
    }
}

/// What gateways have done. Workers add to it for announcements only.
#[derive(Debug, Default)]
pub struct AlgCounts {
    expected: AtomicU64,
    begun: AtomicU64,
    expired: AtomicU64,
    edited: AtomicU64,
    passed: [AtomicU64; Passed::ALL.len()],
}

/// The counts at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlgSums {
    /// Announcements whose connection was expected.
    pub expected: u64,
    /// Expected connections that have begun.
    pub begun: u64,
    /// Announced connections that did not come in time.
    pub expired: u64,
    /// Announcements that got another address or port.
    pub edited: u64,
    /// Announcements that passed as they were, by their cause.
    pub passed: [u64; Passed::ALL.len()],
}

impl AlgCounts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an expectation.
    pub fn note_expected(&self) {
        Self::add(&self.expected);
    }

    /// Counts a connection that was expected.
    pub fn note_begun(&self) {
        Self::add(&self.begun);
    }

    /// Counts expectations whose time is over.
    fn note_expired(&self) {
        Self::add(&self.expired);
    }

    /// Counts an announcement with other text.
    pub fn note_edited(&self) {
        Self::add(&self.edited);
    }

    /// Counts an announcement that passes as it is.
    pub fn note_passed(&self, cause: Passed) {
        if let Some(counter) = self.passed.get(cause as usize) {
            Self::add(counter);
        }
    }

    /// The counts now.
    pub fn sums(&self) -> AlgSums {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AlgSums {
            expected: of(&self.expected),
            begun: of(&self.begun),
            expired: of(&self.expired),
            edited: of(&self.edited),
            passed: self.passed.each_ref().map(of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_index_counters() {
        for (at, cause) in Passed::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, at);
        }
        for alg in Alg::ALL {
            assert_eq!(Alg::of_number(alg as u8), Some(alg));
            assert_eq!(Alg::of_name(alg.name()), Some(alg));
            assert_eq!(stoa_api::nat::default_alg_port(alg.name()), u32::from(alg.port()));
        }
        assert_eq!((Alg::of_number(0), Alg::of_name("http")), (None, None));
    }
}
