//! The words of the command line, rendered from the YANG modules.
//!
//! `interfaces interface lan ipv4 address 10.0.0.1 prefix-length 24` names a node as people type it: names without
//! their module, keys and values in between. [`words`] turns such words, which [`line`] finds, into a data path and back, [`offer`] knows
//! what may come next, [`show`] prints a configuration in braces or as the words that make it, and [`session`] asks
//! a running router.
#![forbid(unsafe_code)]

pub mod commit;
pub mod line;
pub mod offer;
pub mod secret;
pub mod session;
pub mod show;
pub mod words;
