//! Workers: how many, on which processors, with how much packet memory.

use stoa_api::v1;

use crate::error::ValidationErrors;
use crate::model::{HugePages, Polling, Workers};

const PLACE: &str = "/stoa-system:system/workers";

/// The desired workers.
pub fn desired(workers: &Workers, errors: &mut ValidationErrors) -> v1::Workers {
    let pinned = u32::try_from(workers.cpus.len()).unwrap_or(u32::MAX);
    if let Some(count) = workers.count
        && pinned != 0
        && pinned != count
    {
        errors.add(
            format!("{PLACE}/cpus"),
            format!("{count} workers, but {pinned} processors to pin them to"),
            format!(
                "List one processor for each worker, or remove count: then there is one worker \
                 for each of the {pinned}."
            ),
        );
    }
    v1::Workers {
        count: workers.count.unwrap_or(pinned.max(1)),
        cpus: workers.cpus.clone(),
        polling: match workers.polling {
            Polling::Adaptive => v1::Polling::Adaptive,
            Polling::Always => v1::Polling::Polling,
            Polling::Interrupt => v1::Polling::Interrupt,
        }
        .into(),
        buffers: workers.buffers,
        huge_pages: match workers.huge_pages {
            HugePages::IfAvailable => v1::HugePages::IfAvailable,
            HugePages::Never => v1::HugePages::Never,
            HugePages::Required => v1::HugePages::Required,
        }
        .into(),
        kernel: workers.kernel.clone(),
    }
}

/// Says which processors workers are pinned to that this machine has not, or that this process may not
/// use: `stoa run` would refuse them here. `None`: there are all, or nobody knows.
pub fn missing_cpus(desired: &v1::Desired) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let there = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    lacking_of(&desired.workers.as_ref()?.cpus, there)
}

/// `there`: such as "0-3,8".
fn lacking_of(desired: &[u32], there: &str) -> Option<String> {
    let holds = |part: &str, cpu: u32| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.trim().parse::<u32>().ok());
        first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&cpu))
    };
    let is_there = |cpu: u32| there.split(',').any(|part| holds(part, cpu));
    let missing: Vec<String> =
        desired.iter().filter(|cpu| !is_there(**cpu)).map(u32::to_string).collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(", ");
        format!("no processor {missing} here, so that `stoa run` refuses it on this machine (it has {there})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_are_not_there_are_named() {
        assert_eq!(lacking_of(&[], "0-1"), None);
        assert_eq!(lacking_of(&[0, 3, 8], "0-3,8"), None);
        let said = lacking_of(&[0, 4, 9], "0-3,8").unwrap_or_default();
        assert!(said.starts_with("no processor 4, 9 here") && said.contains("0-3,8"), "{said}");
    }

    #[test]
    fn one_worker_for_each_processor() {
        let mut errors = ValidationErrors::default();
        let workers = Workers { cpus: vec![2, 3], ..Workers::default() };
        assert_eq!(desired(&workers, &mut errors).count, 2);
        assert_eq!(desired(&Workers::default(), &mut errors).count, 1);
        assert!(errors.is_empty());
        let workers = Workers { count: Some(3), cpus: vec![2, 3], ..Workers::default() };
        desired(&workers, &mut errors);
        assert_eq!(errors.into_vec().len(), 1);
    }
}
