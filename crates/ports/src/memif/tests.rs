//! Peers that lie, cheat and die.
