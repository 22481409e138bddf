//! Profiles: how long flows of some rules live without packets, and how strictly their connections are followed.
//!
//! A flow has the number of its profile in the upper half of its class, so that its timeout is one look-up.

use std::sync::atomic::{AtomicU32, Ordering};

use stoa_tables::flow_table::Eviction;

use super::tcp::Options;
use super::timeouts::{Class, Timeouts};

/// How flows are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Their timeouts.
    pub timeouts: Timeouts,
    /// How strictly their connections are followed.
    pub options: Options,
}

/// The number of profiles. Number 0 is that of rules without one, and has the defaults. A change replaces all 7 of a
/// configuration at once, and then twice as many are in force.
pub const PROFILES: usize = 16;

const LOOSE: u32 = 1;
const LIBERAL: u32 = 2;

/// The class of a flow with a profile.
#[inline(always)]
pub const fn with_profile(class: Class, profile: u8) -> u8 {
    class as u8 | profile << 4
}

/// The class, without its profile.
#[inline(always)]
pub const fn without_profile(class: u8) -> u8 {
    class & 0x0f
}

/// The number of the profile in a class.
#[inline(always)]
pub const fn profile_of(class: u8) -> u8 {
    class >> 4
}

/// For how many seconds a flow lives without packets at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// Any flow.
    pub answered: u32,
    /// One that is no connection of TCP.
    pub datagrams: u32,
    /// One to which nobody has answered.
    pub unanswered: u32,
}

/// All profiles, which the control thread writes and workers copy.
#[derive(Debug)]
pub struct Profiles {
    /// Raised after each change.
    version: AtomicU32,
    timeouts: [[AtomicU32; Class::ALL.len()]; PROFILES],
    options: [AtomicU32; PROFILES],
    /// What [`Self::longest`] returns, in the order of its fields.
    longest: [AtomicU32; 3],
}

impl Default for Profiles {
    fn default() -> Self {
        let default = Timeouts::default();
        let profiles = Self {
            version: AtomicU32::new(0),
            timeouts: [(); PROFILES].map(|()| Class::ALL.map(|it| AtomicU32::new(default.of(it)))),
            options: [(); PROFILES].map(|()| AtomicU32::new(0)),
            longest: [const { AtomicU32::new(0) }; 3],
        };
        profiles.note_longest(&Profile::default());
        profiles
    }
}

impl Profiles {
    /// Sets a profile, for all flows that have its number. A shorter timeout applies to a flow when its state changes,
    /// or when the former one ends.
    pub fn set(&self, number: u8, profile: &Profile) {
        // Before a worker sees it.
        self.note_longest(profile);
        let number = usize::from(number) % PROFILES;
        for (class, cell) in Class::ALL.into_iter().zip(&self.timeouts[number]) {
            cell.store(profile.timeouts.of(class), Ordering::Relaxed);
        }
        let Options { loose, liberal } = profile.options;
        let bits = if loose { LOOSE } else { 0 } | if liberal { LIBERAL } else { 0 };
        self.options[number].store(bits, Ordering::Relaxed);
        // A worker that copies meanwhile copies again.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// How often a profile was set, modulo 2^32.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The longest timeouts of all profiles that there ever were: flows keep those with which they began.
    pub fn longest(&self) -> Longest {
        let [answered, datagrams, unanswered] =
            [0, 1, 2].map(|it| self.longest[it].load(Ordering::Relaxed));
        Longest { answered, datagrams, unanswered }
    }

    fn note_longest(&self, profile: &Profile) {
        let [answered, datagrams, unanswered] = &self.longest;
        let most = |seen: &AtomicU32, it: u32| seen.fetch_max(it, Ordering::Relaxed);
        for class in Class::ALL {
            let timeout = profile.timeouts.of(class);
            most(answered, timeout);
            // A connection that is picked up counts as open at once.
            if class.eviction(true) != Eviction::Never || profile.options.loose {
                most(datagrams, timeout);
            }
            if class.eviction(false) == Eviction::Unanswered || profile.options.loose {
                most(unanswered, timeout);
            }
        }
    }

    /// A profile.
    pub fn get(&self, number: u8) -> Profile {
        let number = usize::from(number) % PROFILES;
        let mut timeouts = Timeouts::default();
        for (class, cell) in Class::ALL.into_iter().zip(&self.timeouts[number]) {
            timeouts.set(class, cell.load(Ordering::Relaxed));
        }
        let bits = self.options[number].load(Ordering::Relaxed);
        let options = Options { loose: bits & LOOSE != 0, liberal: bits & LIBERAL != 0 };
        Profile { timeouts, options }
    }

    /// The timeout of each class with a profile, in seconds.
    pub fn timeouts(&self) -> [u32; 256] {
        self.copy().timeouts
    }

    /// A copy for a worker: the timeout of each class with a profile, and the options of each profile.
    pub(super) fn copy(&self) -> Copied {
        let version = self.version();
        let (mut timeouts, mut options) = ([1; 256], [Options::default(); PROFILES]);
        for number in 0..PROFILES as u8 {
            let profile = self.get(number);
            for class in Class::ALL {
                timeouts[usize::from(with_profile(class, number))] = profile.timeouts.of(class);
            }
            options[usize::from(number)] = profile.options;
        }
        Copied { version, timeouts, options }
    }
}

/// The profiles of one worker.
pub(super) struct Copied {
    pub(super) version: u32,
    /// By class with profile, in seconds.
    pub(super) timeouts: [u32; 256],
    options: [Options; PROFILES],
}

impl Copied {
    /// The options of a flow of this class.
    #[inline(always)]
    pub(super) fn options(&self, class: u8) -> Options {
        self.options[usize::from(profile_of(class))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_copies_what_was_set() {
        let profiles = Profiles::default();
        let mut quick = Profile::default();
        quick.timeouts.set(Class::Icmp, 5);
        quick.options.loose = true;
        let before = profiles.copy();
        profiles.set(3, &quick);
        assert_ne!(before.version, profiles.version());
        let copied = profiles.copy();
        assert_eq!(copied.version, profiles.version());
        assert_eq!(copied.timeouts[usize::from(with_profile(Class::Icmp, 3))], 5);
        assert_eq!(copied.timeouts[usize::from(with_profile(Class::Icmp, 0))], 60);
        assert_eq!(copied.options(with_profile(Class::TcpOpening, 3)), quick.options);
        assert_eq!(copied.options(Class::TcpOpening as u8), Options::default());
        assert_eq!((profiles.get(3), profiles.get(0)), (quick, Profile::default()));
    }

    #[test]
    fn flows_without_an_answer_live_shorter() {
        let profiles = Profiles::default();
        let of = |it: &Profiles| {
            let Longest { answered, datagrams, unanswered } = it.longest();
            [answered, datagrams, unanswered]
        };
        assert_eq!(of(&profiles), [7440, 300, 300]);
        let mut slow = Profile::default();
        slow.timeouts.set(Class::UdpNew, 400);
        slow.timeouts.set(Class::UdpReplied, 500);
        slow.timeouts.set(Class::TcpHalfClosed, 9000);
        profiles.set(2, &slow);
        assert_eq!(of(&profiles), [9000, 500, 400]);
        // Flows that began by then keep them.
        profiles.set(2, &Profile::default());
        assert_eq!(of(&profiles), [9000, 500, 400]);
        slow.options.loose = true;
        profiles.set(2, &slow);
        assert_eq!(of(&profiles), [9000; 3]);
    }

    #[test]
    fn a_class_keeps_its_profile() {
        for class in Class::ALL {
            for profile in 0..PROFILES as u8 {
                let both = with_profile(class, profile);
                assert_eq!((without_profile(both), profile_of(both)), (class as u8, profile));
            }
        }
    }
}
