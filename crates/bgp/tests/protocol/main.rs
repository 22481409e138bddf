//! A session from OPEN to NOTIFICATION as bytes, without sockets.

mod daemon;
mod messages;
mod routes;
mod updates;
