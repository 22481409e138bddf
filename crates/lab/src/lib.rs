//! Hosts in network namespaces for the demo and the scenarios.
