//! What is wrong with a configuration: where, why, and how to mend it.

pub use stoa_api::v1::Finding;

/// Findings of one look at a configuration, at most [`Findings::LIMIT`].
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    more: usize,
}

impl Findings {
    /// Findings beyond this number are counted, not kept.
    pub const LIMIT: usize = 200;

    /// Notes that something at `path` is wrong.
    pub fn add(
        &mut self,
        path: impl Into<String>,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) {
        let finding = Finding { path: path.into(), why: why.into(), mend: mend.into() };
        if self.list.contains(&finding) {
            return;
        }
        if self.list.len() < Self::LIMIT {
            self.list.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The findings, with a last one that says how many were left out.
    pub fn into_vec(mut self) -> Vec<Finding> {
        if self.more > 0 {
            self.list.push(Finding {
                path: "/".to_owned(),
                why: format!("{} more findings are not shown", self.more),
                mend: "Mend those that are shown first, then check again.".to_owned(),
            });
        }
        self.list
    }
}

/// One finding.
pub fn one(
    path: impl Into<String>,
    why: impl Into<String>,
    mend: impl Into<String>,
) -> Vec<Finding> {
    vec![Finding { path: path.into(), why: why.into(), mend: mend.into() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let mut findings = Findings::default();
        assert!(findings.is_empty());
        for number in 0..Findings::LIMIT + 7 {
            findings.add(format!("/{number}"), "wrong", "mend");
        }
        findings.add("/0", "wrong", "mend");
        let list = findings.into_vec();
        assert_eq!(list.len(), Findings::LIMIT + 1);
        assert!(list.last().unwrap().why.starts_with("7 more"));
    }
}
