//! Batch ciphers: packets of many keys in a call, each encrypted or decrypted in place.
//!
//! ```text
//! lanes (key, nonce, header, text, tag) ─► Engine::seal ─► encrypted texts and tags
//!                                       ─► Engine::open ─► texts, and which of them are authentic
//! ```
//!
//! A packet alone keeps a processor waiting: each round of AES needs the one before. An engine therefore works on
//! several packets at a time ([`vaes`]), or calls a library once for each ([`aws_lc`], which has every algorithm and is
//! the oracle of all tests).
//!
//! An engine proves at its start that it computes known answers ([`engines`]); one that does not is not used.

mod algorithm;
mod aws_lc;
mod engines;
mod lane;
pub mod vaes;

pub use algorithm::Algorithm;
pub use aws_lc::AwsLc;
pub use engines::{Engine, KeyError, engines};
pub use lane::{BATCH, Key, Lane, Mask, TAG};
