//! Questions to a route source: whoever audits has it compare, and waits for the answer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

/// Questions that may wait for one route source.
const WAITING: usize = 64;

/// What a route source found when it compared what it had told with what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Prefixes that are there and lead somewhere.
    pub routes: u64,
    /// Prefixes that the table of learned routes had of the route source when it had heard exactly these; `None`: it did not say in time.
    pub held: Option<u64>,
    /// Prefixes that were not as they had been told. They were told again.
    pub different: u64,
    /// Whether everything was seen: it changes all the time when not.
    pub is_whole: bool,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub struct Asked {
    /// Whether everything is to be told again, too.
    pub says_all: bool,
    answer: oneshot::Sender<Compared>,
}

impl Asked {
    /// Answers; who asked may have gone away.
    pub fn answer(self, compared: Compared) {
        let _ = self.answer.send(compared);
    }
}

/// Those who wait at a route source.
#[derive(Debug, Default)]
pub struct Questions {
    waiting: Mutex<Vec<Asked>>,
    news: Notify,
}

impl Questions {
    /// Asks, and waits for the answer; `None`: there is none in time, because the route source is busy or not open.
    pub async fn ask(&self, says_all: bool, patience: Duration) -> Option<Compared> {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|asked| !asked.answer.is_closed());
            if waiting.len() >= WAITING {
                return None;
            }
            waiting.push(Asked { says_all, answer });
        }
        self.news.notify_one();
        tokio::time::timeout(patience, answered).await.ok()?.ok()
    }

    /// Waits until somebody asks, and gives all who do.
    pub async fn next(&self) -> Vec<Asked> {
        loop {
            let news = self.news.notified();
            let mut asked = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *waiting)
            };
            asked.retain(|asked| !asked.answer.is_closed());
            if !asked.is_empty() {
                return asked;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_ask_are_answered_together_and_who_went_away_is_not() {
        let questions = Questions::default();
        // Nobody answers: that is said in time, and the question is forgotten.
        assert_eq!(questions.ask(false, Duration::from_millis(1)).await, None);
        let found = Compared { routes: 7, held: Some(7), different: 1, is_whole: true };
        let patience = Duration::from_secs(30);
        let route_source = async {
            let asked = questions.next().await;
            assert!(asked.len() == 2 && asked[1].says_all);
            asked.into_iter().for_each(|asked| asked.answer(found));
        };
        let (one, two, ()) = tokio::join!(
            questions.ask(false, patience),
            questions.ask(true, patience),
            route_source
        );
        assert_eq!((one, two), (Some(found), Some(found)));
    }
}
