//! Warm restart: state that survives the process that wrote it.
//!
//! A capability keeps what a peer would miss after a crash (sequence numbers, sessions, keys) as entries of a
//! [`Region`]: sealed memory (memfd), never a file on a disk. Whoever started the process holds a descriptor of the
//! memory and hands it to the next process: `stoa run` ([`DescriptorStore`]) or systemd (its file descriptor store).
//! [`regions`] finds out which.
//!
//! ```text
//!            DescriptorStore (`stoa run`)  or  systemd
//!                 │ descriptors, by name   ▲
//!                 ▼                        │
//!  regions() ► Regions ► open::<State>() ► Region (memory) ► Slot ► write
//!                                            │ header: which layout
//!                                            └ slots: two copies of an entry each
//! ```
//!
//! The next process trusts nothing that it finds: it compares the header with its own layout, and checks each entry.

mod arrays;
mod descriptor_store;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod header;
mod holder;
mod mapping;
mod message;
pub mod probe;
mod record;
mod region;
mod regions;
mod slot;

pub use arrays::{ARRAY_ALIGN, Arrays, FormerArrays, FormerWords};
pub use descriptor_store::{CHILD_ENVIRONMENT, DescriptorStore, Taken};
pub use header::Unusable;
pub use record::{Record, State};
pub use region::{Region, Slot};
pub use regions::{Entries, Opened, Regions, Report, regions};
/// For the macro [`record!`].
#[doc(hidden)]
pub use zerocopy;
