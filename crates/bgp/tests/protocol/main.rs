//! A session from its beginning to its end, whatever the daemon says: the bytes of both sides, no sockets.

mod daemon;
mod messages;
mod routes;
mod updates;
