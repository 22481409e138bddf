//! The lists of the module `stoa-annotations`: what is written about nodes, and the parts that are not in effect.

/// The words of the list of parts that are not in effect.
pub(crate) const INACTIVE: [&str; 2] = ["deactivated", "part"];

/// The words of the list of annotations.
pub(crate) const ANNOTATIONS: [&str; 2] = ["annotations", "annotation"];

/// The words of an entry of one of the lists of `stoa-annotations`.
pub(crate) fn entry(list: [&str; 2], node: &str, rest: &[&str]) -> Vec<String> {
    list.iter().chain([&node]).chain(rest).map(|word| (*word).to_owned()).collect()
}
