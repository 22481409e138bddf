//! Long work of users, off the threads that answer clients: each user has a share of these threads, so that nobody
//! waits for a queue that another user has filled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Work of one user at a time.
const AT_ONCE: usize = 3;

/// The turns of all users with work.
#[derive(Debug, Default)]
pub struct Turns {
    held: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Turns {
    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Users without work are removed.
        held.retain(|_, one| one.strong_count() > 0);
        let known = held.get(user).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(AT_ONCE));
            held.insert(user.to_owned(), Arc::downgrade(&new));
            new
        })
    }

    /// Runs the work of a user when it is its turn. The turn lasts until the work ends, even if nobody waits for it.
    ///
    /// # Errors
    /// When the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        user: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turns = self.of(user);
        let turn = Arc::clone(&turns).acquire_owned().await;
        tokio::task::spawn_blocking(move || {
            let _turn = (turn, turns);
            work()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_user_waits_for_itself_and_for_nobody_else() {
        let turns = Arc::new(Turns::default());
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let work: Vec<_> = (0..100)
            .map(|_| {
                let (turns, ended) = (Arc::clone(&turns), Arc::clone(&ended));
                let wait = move || ended.lock().unwrap().recv().is_ok();
                tokio::spawn(async move { turns.run("eve", wait).await })
            })
            .collect();
        while turns.of("eve").available_permits() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let others = turns.run("ann", || 7);
        assert_eq!(
            tokio::time::timeout(Duration::from_secs(20), others).await.unwrap().unwrap(),
            7
        );
        drop(end);
        for one in work {
            one.await.unwrap().unwrap();
        }
        turns.of("ann");
        assert_eq!(turns.held.lock().unwrap().len(), 1, "users without work are removed");
    }
}
