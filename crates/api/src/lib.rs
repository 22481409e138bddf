//! The contract between the halves, versioned and additive.
//!
//! `v1` is generated from `proto/stoa/v1`. The controller states what is wanted
//! as one [`v1::Desired`]; the forwarder answers with what is. Around it: how
//! both sides reach each other ([`unix`]), how a refusal carries its reasons
//! ([`refusal`]), the words that operators read ([`text`]), and the digests by which both
//! sides compare their learned routes ([`digest`]). Beside it [`gnmi`],
//! the words of others that the controller answers to.
#![forbid(unsafe_code)]

pub mod date;
pub mod digest;
pub mod refusal;
pub mod text;
pub mod unix;

/// Version 1 of the contract.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("stoa.v1");
}

/// gNMI, which clients speak to the controller: generated from `proto/gnmi`.
#[allow(missing_docs, deprecated, clippy::all)]
pub mod gnmi {
    tonic::include_proto!("gnmi");
}

/// Extensions of gNMI.
#[allow(missing_docs, clippy::all)]
pub mod gnmi_ext {
    tonic::include_proto!("gnmi_ext");
}

/// The version that [`v1::HelloReply::contract`] carries.
pub const CONTRACT: u32 = 1;

/// Largest message of the contract in bytes, on both sides: a wanted state of
/// some million routes. Pass it to `max_decoding_message_size`.
pub const MESSAGE_LIMIT_BYTES: usize = 512 << 20;
