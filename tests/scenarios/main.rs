//! Scenarios: the router between real peers in network namespaces. One file is one capability.
//!
//! A single program is linked once. `docs/dev/scenarios.md` describes how to run and add one.

#![forbid(unsafe_code)]

mod acl;
mod af_xdp;
mod arping;
mod bfd;
mod bfd_link;
mod chaos;
mod commits;
mod convergence;
mod cross_connect;
mod delta;
mod demo;
mod desired_audit;
mod device_removal;
mod discovery;
mod dpdk;
mod ecmp;
mod flood;
mod fragments;
mod frr;
mod host_interface;
mod instructions;
mod iperf;
mod kernels;
mod lab;
mod linux_routes;
mod malformed;
mod memif_library;
mod memif_testpmd;
mod mixed_interfaces;
mod mtu;
mod ndisc6;
mod nmap;
mod no_root;
mod pcap;
mod ping;
mod policy;
mod prometheus;
mod punt_flood;
mod punt_stream;
mod radius;
mod reload;
mod restart;
mod router_ping;
mod routing_bird;
mod routing_frr;
mod second_run;
mod slow_path;
mod software_rss;
mod syslog;
mod tap;
mod trace_capture;
mod tracepath;
mod traceroute;
mod traffic;
mod tunnel;
mod unreachable;
mod vlan;
mod vrf;
mod vrrp;
mod warm_restart;
mod web;
mod zones;
