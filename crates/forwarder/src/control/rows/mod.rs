//! Tables of rows: what capabilities receive by keyed delta streams, each with state of its own.
//!
//! A capability with rows implements [`Store`](stoa_delta::Store) and adds one line to [`TABLES`]. The rest, the
//! stream with batches, sweeps and audits, is the same for all.

mod stream;
mod test_rows;

use stoa_api::{login, rows, v1};
use stoa_delta::{Audit, Receiver, Summary, Superseded, Table, Update};

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::login::LoginRows;

/// A table that a capability offers.
struct Offer {
    name: &'static str,
    /// The version of its keys and rows.
    format: u32,
    /// Is not listed while it is empty.
    is_hidden: bool,
    make: fn() -> Box<dyn Table<ForwarderState>>,
}

/// The tables of all capabilities.
const TABLES: &[Offer] = &[
    Offer {
        name: login::TABLE,
        format: login::FORMAT,
        is_hidden: true,
        make: || Box::new(Receiver::new(LoginRows)),
    },
    Offer {
        name: rows::test::TABLE,
        format: rows::test::FORMAT,
        is_hidden: true,
        make: || Box::new(Receiver::new(test_rows::TestRows::default())),
    },
];

/// The rows of all capabilities, in the order of [`TABLES`]. Empty while one of them works with the rest of the state.
#[derive(Default)]
pub(super) struct Tables(Vec<Box<dyn Table<ForwarderState>>>);

impl Capability for Tables {
    const VERBS: Verbs = Verbs::NONE;

    fn start(_: &Start<'_>) -> Self {
        Self(TABLES.iter().map(|offer| (offer.make)()).collect())
    }
}

/// The index of a table.
fn find(name: &str) -> Option<usize> {
    TABLES.iter().position(|offer| offer.name == name)
}

impl ForwarderState {
    /// Runs the next batch of a message; true once it has taken effect.
    fn update_rows(&mut self, table: usize, update: &mut Update) -> Result<bool, Superseded> {
        // The capability works with the rest of the state.
        let mut tables = std::mem::take(&mut self.capabilities.rows);
        let done = tables.0[table].step(self, update);
        self.capabilities.rows = tables;
        done
    }

    fn begin_rows_audit(&self, table: usize, slices: &[u32]) -> Audit {
        self.capabilities.rows.0[table].begin_audit(slices)
    }

    /// Runs the next batch of an audit; true at its end.
    fn audit_rows(&self, table: usize, audit: &mut Audit) -> bool {
        self.capabilities.rows.0[table].audit_step(self, audit)
    }

    fn rows_generation(&self, table: usize) -> u64 {
        self.capabilities.rows.0[table].summary().generation
    }

    /// What is held of each capability.
    pub(super) fn list_tables(&self) -> Vec<v1::TableState> {
        let tables = TABLES.iter().zip(&self.capabilities.rows.0);
        let shown = tables.filter_map(|(offer, table)| {
            let Summary { generation, is_complete, rows, stale, digest } = table.summary();
            let (name, digest) = (offer.name.to_owned(), Some(digest));
            let is_shown = rows > 0 || !offer.is_hidden;
            is_shown.then_some(v1::TableState {
                name,
                generation,
                is_complete,
                rows,
                stale,
                digest,
            })
        });
        std::iter::once(self.learned_state()).chain(shown).collect()
    }
}
