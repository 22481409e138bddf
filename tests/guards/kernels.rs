//! Kernels call closures themselves.
//!
//! A closure has the target features of the function around it, but `array::map`, `from_fn` and
//! `Option::map` have none. So the compiler cannot inline the closure into them, and where it has not
//! inlined them first, each call passes its vectors through memory.

use std::path::PathBuf;

use crate::{read, root, sources};

/// What `map` is allowed after: their closures take no vectors.
const ITERATORS: [&str; 3] = [".iter()", ".iter_mut()", ".enumerate()"];

/// The lines of the code before the tests, without comments and with their numbers.
fn code(text: &str) -> Vec<(usize, &str)> {
    let is_test = |line: &&str| line.starts_with("#[cfg(") && line.contains("test");
    let lines = text.lines().take_while(|line| !is_test(line));
    (1..).zip(lines).filter(|(_, line)| !line.trim_start().starts_with("//")).collect()
}

/// The numbers of the lines of a kernel that pass a closure to a function without its features.
fn faults(text: &str) -> Vec<usize> {
    let (mut found, mut before) = (Vec::new(), String::new());
    for (number, line) in code(text) {
        let mut is_fault = line.contains("from_fn(") || line.contains(".each_ref()");
        for (at, _) in line.match_indices(".map(") {
            let receiver = [&before, line[..at].trim()].concat();
            is_fault |= !ITERATORS.iter().any(|iterator| receiver.ends_with(iterator));
        }
        if is_fault {
            found.push(number);
        }
        line.trim().clone_into(&mut before);
    }
    found
}

#[test]
fn kernels_call_closures_themselves() {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["crates/engine/src", "crates/forwarder/src", "crates/tables/src"] {
        sources(&root().join(folder), &mut files);
    }
    let kernels: Vec<_> = files
        .into_iter()
        .map(|file| (read(&file), file))
        .filter(|(text, _)| text.contains("#[target_feature("))
        .collect();
    assert!(kernels.len() > 30, "the kernels are found");
    let mut list = Vec::new();
    for (text, file) in &kernels {
        let lines = faults(text).into_iter();
        list.extend(lines.map(|line| {
            format!("{}:{line}: call the closure for each element: [of(0), of(1)]", file.display())
        }));
    }
    assert!(list.is_empty(), "{}", list.join("\n"));
}

#[test]
fn closures_in_functions_without_features_are_found() {
    let text = "\
let a = [low, high].map(|it| _mm512_srli_epi64::<32>(it));
// let a = [low, high].map(|it| it);
let a = std::array::from_fn(|lane| word(lane));
let a = two(window).map(|it| _mm256_srl_epi64(it, right));
let a = keys
    .each_ref()
    .map(|keys| load(keys));
let sum: u64 = sums.iter().map(|sum| u64::from(*sum)).sum();
let lines = slots
    .iter()
    .enumerate()
    .map(line);
#[cfg(test)]
let a = [0, 1].map(f);
";
    assert_eq!(faults(text), [1, 3, 4, 6, 7]);
}
