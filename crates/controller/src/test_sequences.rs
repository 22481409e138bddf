//! The test capability: sequence numbers that go on after the controller was killed. It runs only where a test asks for
//! it ([`stoa_warm_restart::probe`]).

use std::sync::{Mutex, PoisonError};

use stoa_warm_restart::probe::{Counting, ENTRIES, Journal};

use crate::capability::{Capability, Start, StartFailure};

/// The capability.
pub(crate) static TEST_SEQUENCES: TestSequences = TestSequences { counting: Mutex::new(None) };

/// The thread that counts, where a test has asked for it.
pub(crate) struct TestSequences {
    counting: Mutex<Option<Counting>>,
}

impl Capability for TestSequences {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn start(&self, start: &mut Start<'_>) -> Result<(), StartFailure> {
        let Some(journal) = Journal::of("controller")? else { return Ok(()) };
        let counting = Counting::start(start.open(ENTRIES)?, journal)?;
        *self.counting.lock().unwrap_or_else(PoisonError::into_inner) = Some(counting);
        Ok(())
    }
}
