//! Batch ciphers: packets of many keys in a call, each encrypted or decrypted in place.
//!
//! ```text
//! lanes (key, packet, nonce, AAD) ─► Engines::seal ─► encrypted texts and tags, and which lanes have them
//!                                 ─► Engines::open ─► texts, and which of them are authentic
//! ```
//!
//! A packet alone keeps a processor waiting: each round of AES needs the one before. An engine therefore works on
//! several packets at a time ([`vaes`], and `ipsec-mb` where its library is installed), or calls a library once for
//! each ([`AwsLc`], which has every algorithm and is the oracle of all tests).
//!
//! An engine proves at its start that it computes known answers; one that does not is not used. [`Engines`] has the
//! fastest engine for each algorithm, or the one that is forced.

mod algorithm;
mod aws_lc;
mod engine;
mod engines;
#[cfg(feature = "ipsec-mb")]
mod ipsec_mb;
mod ivs;
mod lane;
mod numbers;
mod salt;
mod secret;
pub mod vaes;

pub use algorithm::{Algorithm, Authentication};
pub use aws_lc::AwsLc;
pub use engine::{Engine, KeyError};
pub use engines::{EngineState, Engines, ForceError, Refusal, engines};
pub use ivs::{Ivs, RandomError};
pub use lane::{BATCH, Key, Lane, Mask, PACKET_MAX};
pub use numbers::NumberError;
pub use salt::Salt;
pub use secret::{Fingerprint, Secret};
