//! Stories about a whole forwarder without root: frames in, frames out, and the
//! counters that moved.

mod advertising;
mod arp;
mod capture;
mod claims;
mod crew;
mod cross_connect;
mod extensions;
mod forward;
mod fragments;
mod harness;
mod hostile;
mod learned;
mod learned_model;
mod learned_repair;
mod learned_tables;
mod limits;
mod local;
mod mirror;
mod nd;
mod options;
mod order;
mod paths;
mod punt;
mod reassembly;
mod redirect;
mod refuse;
mod resync;
mod reverse_path;
mod spread;
mod trace;
mod transactions;
mod tunnel;
mod unchanged;
mod vrf;
mod waiting;
