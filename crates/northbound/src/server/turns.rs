//! Long work of users, off the threads that answer clients: each user has a share of these threads, so that nobody
//! waits for a queue that another user has filled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Work of one user at a time.
const AT_ONCE: usize = 3;
/// Work of all users at a time. The other blocking threads are for logins, and for the program itself.
const ALL_AT_ONCE: usize = 5;
/// Comparisons of all users at a time: each may read two trees from the disk.
const COMPARISONS: usize = 2;

/// The turns of all users with work.
#[derive(Debug)]
pub struct Turns {
    held: Mutex<HashMap<String, Weak<Semaphore>>>,
    all: Arc<Semaphore>,
    comparisons: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            held: Mutex::default(),
            all: Arc::new(Semaphore::new(ALL_AT_ONCE)),
            comparisons: Arc::new(Semaphore::new(COMPARISONS)),
        }
    }
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
        self.run_after(user, None, work).await
    }

    /// The same for a comparison, of which there are fewer at a time.
    ///
    /// # Errors
    /// When the work panics.
    pub async fn compare<T: Send + 'static>(
        &self,
        user: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.run_after(user, Some(&self.comparisons), work).await
    }

    /// Runs the work after the turn of the user, that of this kind of work, and that of all: who waits for one of them
    /// holds none that another user needs.
    async fn run_after<T: Send + 'static>(
        &self,
        user: &str,
        kind: Option<&Arc<Semaphore>>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turns = self.of(user);
        let turn = Arc::clone(&turns).acquire_owned().await;
        let of_kind = match kind {
            Some(kind) => Some(Arc::clone(kind).acquire_owned().await),
            None => None,
        };
        let of_all = Arc::clone(&self.all).acquire_owned().await;
        tokio::task::spawn_blocking(move || {
            let _turns = (turn, turns, of_kind, of_all);
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

    /// Starts three jobs of each of these users, and returns how many run at a time.
    async fn running(users: &[&'static str], is_comparison: bool) -> usize {
        let turns = Arc::new(Turns::default());
        let (begin, begun) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let jobs: Vec<_> = users.iter().flat_map(|user| [*user; 3]).collect();
        let work: Vec<_> = jobs
            .into_iter()
            .map(|user| {
                let (turns, begin, ended) = (Arc::clone(&turns), begin.clone(), Arc::clone(&ended));
                let wait = move || {
                    begin.send(()).unwrap();
                    ended.lock().unwrap().recv().is_ok()
                };
                tokio::spawn(async move {
                    match is_comparison {
                        true => turns.compare(user, wait).await,
                        false => turns.run(user, wait).await,
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let count = begun.try_iter().count();
        drop(end);
        for one in work {
            one.await.unwrap().unwrap();
        }
        count
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_users_together_leave_threads_for_the_program() {
        let users = ["ann", "bob", "eve"];
        assert_eq!(running(&users, false).await, ALL_AT_ONCE);
        assert_eq!(running(&users, true).await, COMPARISONS);
        assert_eq!(running(&["eve"], false).await, AT_ONCE);
    }
}
