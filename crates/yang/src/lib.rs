//! The YANG modules, compiled by libyang: schema, validation, and errors with their fix.
//!
//! `sources` has the text of the modules, `schema` compiles them and validates, `data` parses and prints trees, `read`
//! reads their values, and `fix` and `cause` convert the errors of libyang (`libyang`, `place`) to errors with path,
//! cause and fix. `identities`, `renamed_names`, `schema_text`, `unsupported` and `well_known` know what libyang does
//! not say, `instance_path` takes paths to data apart, `references` finds the leaves that refer to a node and their
//! targets, `order` moves entries of lists, `secrets` knows which leaves are secret, and `memory` gives back what trees
//! left. Nothing here depends on what a configuration means: that is the controller's.
#![deny(unsafe_code)]

mod cause;
pub mod data;
pub mod error;
mod fix;
pub mod identities;
pub mod instance_path;
mod libyang;
pub mod memory;
pub mod order;
mod place;
pub mod read;
pub mod references;
pub mod renamed_names;
mod schema;
pub mod schema_text;
pub mod secrets;
mod sources;
pub mod unsupported;
pub mod well_known;
mod zones;

pub use libyang::{LibyangError, collect_errors};
pub use schema::{Schema, Valid, schema};
pub use sources::{Module, SUBMODULES, add, added, own_sources, source, sources};
