//! What bytes mean: headers and messages, parsed, checked and built.
