//! What is done to packets: one folder per capability.
