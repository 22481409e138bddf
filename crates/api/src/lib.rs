//! The contract between controller and forwarder, versioned and additive.
//!
//! `v1` is generated from `proto/stoa/v1`: the controller sends the desired state as one [`v1::Desired`], the forwarder
//! reports the actual state. Besides: Unix sockets ([`unix`]), errors in gRPC statuses ([`refusal`]), text forms of
//! addresses and routes ([`text`]), the JSON form of the desired state ([`json`]), what capabilities count
//! ([`counters`]), tables of rows ([`rows`]), packets of protocols in the controller ([`punts`]), and the digests by
//! which both sides compare learned routes ([`digest`]) and the desired state ([`audit`]). [`gnmi`] is the interface
//! that gNMI clients use.
#![forbid(unsafe_code)]

pub mod acl;
pub mod audit;
pub mod counters;
pub mod date;
pub mod digest;
pub mod flow;
pub mod flow_sync;
pub mod ipsec;
pub mod json;
pub mod login;
pub mod nat;
pub mod program;
pub mod punts;
pub mod refusal;
pub mod rows;
pub mod text;
pub mod unix;
pub mod zones;

/// Version 1 of the contract.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("stoa.v1");
}

/// gNMI, generated from `proto/gnmi`.
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

/// Largest message in bytes, on both sides: enough for a desired state with millions of routes. Pass it to
/// `max_decoding_message_size`.
pub const MESSAGE_LIMIT_BYTES: usize = 512 << 20;
