//! What the scenarios share: the two sides of most stories, and the configuration of the router between them.

#![forbid(unsafe_code)]
