//! Stories about a whole forwarder without root: frames in, frames out, and the
//! counters that moved.

mod arp;
mod crew;
mod forward;
mod harness;
mod hostile;
mod local;
mod nd;
mod paths;
mod punt;
mod refuse;
mod reverse_path;
mod transactions;
mod vrf;
