//! The command line of the configuration, generated from the YANG modules.
//!
//! `interfaces interface lan ipv4 address 10.0.0.1 prefix-length 24` names a node: names without their module, followed
//! by keys and values. [`line`] splits a line into words, [`words`] converts words to a data path and back,
//! [`completion`] and [`insert`] offer the next word, [`show`] prints a configuration in braces or as `set` lines,
//! [`changes`] prints differences, and [`session`] calls a running router.
#![forbid(unsafe_code)]

pub mod abbreviation;
pub mod changes;
pub mod commit;
pub mod completion;
pub mod insert;
mod kind;
pub mod line;
mod names;
mod notes;
mod paths;
mod position;
pub mod rename;
pub mod secret;
pub mod session;
pub mod show;
pub mod synonyms;
mod values;
mod whole;
pub mod words;
