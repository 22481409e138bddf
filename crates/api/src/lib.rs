//! The contract between the halves, versioned and additive.
//!
//! `v1` is generated from `proto/stoa/v1`. The controller states what is wanted
//! as one [`v1::Desired`]; the forwarder answers with what is.
#![forbid(unsafe_code)]

/// Version 1 of the contract.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("stoa.v1");
}

/// The version that [`v1::HelloReply::contract`] carries.
pub const CONTRACT: u32 = 1;
