//! Why logins end.

use serde::{Deserialize, Serialize};

/// Why a login has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The host has logged out, or in again.
    User,
    /// It has sent nothing for too long.
    IdleTimeout,
    /// Its time is over.
    SessionTimeout,
    /// Its volume is used up.
    Volume,
    /// An operator or a program has logged it out.
    Operator,
    /// Hosts of its interface need not log in any more.
    Withdrawn,
}

impl Cause {
    /// The value of Acct-Terminate-Cause (RFC 2866 section 5.10).
    pub fn radius(self) -> u32 {
        match self {
            Self::User => 1,
            Self::IdleTimeout => 4,
            Self::SessionTimeout => 5,
            Self::Operator => 6,
            Self::Volume | Self::Withdrawn => 10,
        }
    }

    /// In the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "logged out",
            Self::IdleTimeout => "idle timeout",
            Self::SessionTimeout => "session timeout",
            Self::Volume => "volume used up",
            Self::Operator => "logged out by an operator",
            Self::Withdrawn => "no login needed any more",
        }
    }
}
