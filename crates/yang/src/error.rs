//! What is wrong with a configuration: where, the cause, and how to fix it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

pub use stoa_api::v1::ValidationError;

/// The errors of one validation.
///
/// An error that occurs at more than [`ValidationErrors::PLACES`] paths is reported once, with a count and the first
/// paths. At most [`ValidationErrors::LIMIT`] different errors are kept.
#[derive(Debug, Default)]
pub struct ValidationErrors {
    list: Vec<Counted>,
    /// Hashes of the errors that were added: a repeated one counts once.
    seen: HashSet<u64>,
    more: usize,
}

/// A cause with its fix, and where it occurs.
#[derive(Debug)]
struct Counted {
    cause: String,
    fix: String,
    names: Vec<String>,
    /// The first paths, each with its position among all errors.
    paths: Vec<(usize, String)>,
    count: usize,
}

impl ValidationErrors {
    /// Different errors beyond this number are counted, not kept.
    pub const LIMIT: usize = 200;
    /// Paths of an error that are listed.
    pub const PLACES: usize = 3;

    /// Adds an error at `path`.
    pub fn add(
        &mut self,
        path: impl Into<String>,
        cause: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add_about(path, cause, fix, &[]);
    }

    /// Adds an error at `path` that may also be due to other nodes: those with these names, addresses or prefixes as a
    /// key or a value. If one of them was changed, the error is shown there.
    pub fn add_about(
        &mut self,
        path: impl Into<String>,
        cause: impl Into<String>,
        fix: impl Into<String>,
        names: &[&dyn ToString],
    ) {
        let (path, cause, fix) = (path.into(), cause.into(), fix.into());
        let mut hasher = DefaultHasher::new();
        (&path, &cause, &fix).hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return;
        }
        let position = self.seen.len();
        let is_full = self.list.len() >= Self::LIMIT;
        let known = self.list.iter_mut().find(|error| error.cause == cause && error.fix == fix);
        if let Some(error) = known {
            error.count += 1;
            if error.paths.len() < Self::PLACES {
                error.paths.push((position, path));
            }
        } else if is_full {
            self.more += 1;
        } else {
            let names = names.iter().map(|name| name.to_string());
            let names = names.filter(|name| !name.is_empty()).collect();
            self.list.push(Counted { cause, fix, names, paths: vec![(position, path)], count: 1 });
        }
    }

    /// Counts errors that are not known one by one.
    pub fn add_more(&mut self, count: usize) {
        self.more += count;
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.more == 0
    }

    /// The errors in the order in which they were added. A last one counts those that are not shown.
    pub fn into_vec(self) -> Vec<ValidationError> {
        let mut errors = Vec::new();
        for Counted { mut cause, fix, names, mut paths, count } in self.list {
            if count > Self::PLACES {
                let next = paths.drain(1..).map(|(_, path)| path).collect::<Vec<_>>().join(" and ");
                cause.push_str(&format!(" (at {count} places: here, next at {next})"));
            }
            for (position, path) in paths {
                let (cause, fix, names) = (cause.clone(), fix.clone(), names.clone());
                errors.push((position, ValidationError { path, cause, fix, names }));
            }
        }
        errors.sort_by_key(|(position, _)| *position);
        let mut errors: Vec<_> = errors.into_iter().map(|(_, error)| error).collect();
        if self.more > 0 {
            errors.push(ValidationError {
                path: "/".to_owned(),
                cause: format!("{} more errors are not shown", self.more),
                fix: "Fix those that are shown first, then check again.".to_owned(),
                names: Vec::new(),
            });
        }
        errors
    }
}

/// The errors, with equal ones at many paths as one with a count.
pub fn counted(errors: impl IntoIterator<Item = ValidationError>) -> Vec<ValidationError> {
    let mut all = ValidationErrors::default();
    for ValidationError { path, cause, fix, names } in errors {
        let names: Vec<&dyn ToString> = names.iter().map(|name| name as &dyn ToString).collect();
        all.add_about(path, cause, fix, &names);
    }
    all.into_vec()
}

/// One error.
pub fn one(
    path: impl Into<String>,
    cause: impl Into<String>,
    fix: impl Into<String>,
) -> Vec<ValidationError> {
    let (path, cause, fix) = (path.into(), cause.into(), fix.into());
    vec![ValidationError { path, cause, fix, names: Vec::new() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_errors_are_bounded() {
        let mut errors = ValidationErrors::default();
        assert!(errors.is_empty());
        for number in 0..ValidationErrors::LIMIT + 7 {
            errors.add(format!("/{number}"), format!("{number} is wrong"), "fix");
        }
        errors.add("/0", "0 is wrong", "fix");
        let list = errors.into_vec();
        assert_eq!(list.len(), ValidationErrors::LIMIT + 1);
        assert!(list.last().unwrap().cause.starts_with("7 more"));
    }

    #[test]
    fn equal_errors_are_counted() {
        let mut errors = ValidationErrors::default();
        for number in 0..800 {
            errors.add(format!("/{number}"), "there is no VRF \"red\"", "Define \"red\".");
            errors.add(format!("/{number}"), "there is no VRF \"red\"", "Define \"red\".");
            if number < 2 {
                errors.add(format!("/{number}"), "too short", "Write more.");
            }
        }
        let list = errors.into_vec();
        let texts: Vec<_> = list.iter().map(|error| (&*error.path, &*error.cause)).collect();
        let counted = "there is no VRF \"red\" (at 800 places: here, next at /1 and /2)";
        assert_eq!(texts, [("/0", counted), ("/0", "too short"), ("/1", "too short")]);
    }
}
