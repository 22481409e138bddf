//! The drivers of Linux devices against the real kernel, in network namespaces of their own.
//! Needs root; without it each test reports that and passes.

mod af_packet;
mod af_xdp;
mod af_xdp_refusals;
mod device_opener;
mod host_interface;
mod offload;
mod peer;
mod rights;
mod side;
mod tap;
