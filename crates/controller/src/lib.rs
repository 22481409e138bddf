//! What is wanted: configuration, transactions, routes.
