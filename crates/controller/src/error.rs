//! What is wrong with a configuration: where, why, and how to fix it.

pub use stoa_api::v1::ValidationError;

/// ValidationErrors of one look at a configuration, at most [`ValidationErrors::LIMIT`].
#[derive(Debug, Default)]
pub struct ValidationErrors {
    list: Vec<ValidationError>,
    more: usize,
}

impl ValidationErrors {
    /// ValidationErrors beyond this number are counted, not kept.
    pub const LIMIT: usize = 200;

    /// Notes that something at `path` is wrong.
    pub fn add(
        &mut self,
        path: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let error = ValidationError { path: path.into(), cause: reason.into(), fix: fix.into() };
        if self.list.contains(&error) {
            return;
        }
        if self.list.len() < Self::LIMIT {
            self.list.push(error);
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors, with a last one that says how many were left out.
    pub fn into_vec(mut self) -> Vec<ValidationError> {
        if self.more > 0 {
            self.list.push(ValidationError {
                path: "/".to_owned(),
                cause: format!("{} more errors are not shown", self.more),
                fix: "Fix those that are shown first, then check again.".to_owned(),
            });
        }
        self.list
    }
}

/// One error.
pub fn one(
    path: impl Into<String>,
    reason: impl Into<String>,
    fix: impl Into<String>,
) -> Vec<ValidationError> {
    vec![ValidationError { path: path.into(), cause: reason.into(), fix: fix.into() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let mut errors = ValidationErrors::default();
        assert!(errors.is_empty());
        for number in 0..ValidationErrors::LIMIT + 7 {
            errors.add(format!("/{number}"), "wrong", "fix");
        }
        errors.add("/0", "wrong", "fix");
        let list = errors.into_vec();
        assert_eq!(list.len(), ValidationErrors::LIMIT + 1);
        assert!(list.last().unwrap().cause.starts_with("7 more"));
    }
}
