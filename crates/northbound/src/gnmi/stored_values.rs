//! The values that streams store to detect changes: a limit for all, and a smaller one for each user.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of stored values of all streams: some 250 bytes each.
pub const LIMIT: usize = 200_000;
/// Maximum number of stored values of one user: no user leaves nothing to others.
pub const USER_LIMIT: usize = LIMIT / 4 * 3;

/// The stored values of all users.
#[derive(Debug, Default)]
pub struct StoredValues {
    by_user: Mutex<HashMap<String, usize>>,
}

impl StoredValues {
    fn by_user(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values of all users.
    #[cfg(test)]
    pub fn all(&self) -> usize {
        self.by_user().values().sum()
    }

    /// Replaces the number of values of one stream. Returns whether the limits hold.
    pub fn replace(&self, user: &str, before: usize, now: usize) -> bool {
        let mut by_user = self.by_user();
        let own = by_user.get(user).copied().unwrap_or(0).saturating_sub(before) + now;
        match own {
            0 => drop(by_user.remove(user)),
            own => drop(by_user.insert(user.to_owned(), own)),
        }
        now == 0 || own <= USER_LIMIT && by_user.values().sum::<usize>() <= LIMIT
    }

    /// Values that a subscription of a user with `held` values may have.
    pub fn room(&self, user: &str, held: usize) -> usize {
        let by_user = self.by_user();
        let room = |limit: usize, used: usize| limit.saturating_sub(used.saturating_sub(held));
        let own = by_user.get(user).copied().unwrap_or(0);
        room(LIMIT, by_user.values().sum()).min(room(USER_LIMIT, own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_leaves_values_to_others() {
        let values = StoredValues::default();
        assert_eq!(values.room("eve", 0), USER_LIMIT);
        assert!(values.replace("eve", 0, 100_000) && values.replace("eve", 0, 50_000));
        assert_eq!((values.room("eve", 0), values.room("eve", 50_000)), (0, 50_000));
        assert_eq!(values.room("ann", 0), LIMIT - USER_LIMIT);
        assert!(values.replace("ann", 0, LIMIT - USER_LIMIT));
        assert!(!values.replace("ann", 0, 1) && values.replace("ann", 1, 0));
        assert!(!values.replace("eve", 50_000, 50_001));
        values.replace("eve", 50_001, 0);
        values.replace("eve", 100_000, 0);
        values.replace("ann", LIMIT - USER_LIMIT, 0);
        assert!(values.by_user().is_empty());
    }
}
