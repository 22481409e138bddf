//! Every engine of this machine against vectors of others, against aws-lc, and with changed packets.

mod batches;
mod changes;
mod packets;
mod vectors;
