//! What is known: longest-prefix match, next hops, token buckets.
