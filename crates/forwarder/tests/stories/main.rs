//! Stories about a whole forwarder without root: frames in, frames out, and the
//! counters that moved.

mod arp;
mod forward;
mod harness;
mod local;
mod nd;
mod refuse;
