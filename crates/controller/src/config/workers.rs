//! Workers: their number, CPUs and packet buffers.

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::model::Workers;

const PATH: &str = "/stoa-system:system/workers";

/// The desired workers.
pub fn desired(workers: &Workers, errors: &mut ValidationErrors) -> v1::Workers {
    let pinned = u32::try_from(workers.of.cpus.len()).unwrap_or(u32::MAX);
    if let Some(count) = workers.count
        && pinned != 0
        && pinned != count
    {
        errors.add(
            format!("{PATH}/cpus"),
            format!("there are {count} workers, but {pinned} CPUs to pin them to"),
            format!(
                "List one CPU for each worker, or remove count: then each of the {pinned} CPUs has one \
                 worker."
            ),
        );
    }
    v1::Workers { count: workers.count.unwrap_or(pinned.max(1)), ..workers.of.clone() }
}

/// A message about CPUs of workers that this process cannot use, which `stoa run` would refuse; `None`: there are none,
/// or the CPUs are unknown.
pub fn missing_cpus(desired: &v1::Desired) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    missing_of(&desired.workers.as_ref()?.cpus, allowed)
}

/// `allowed` is a list such as "0-3,8".
fn missing_of(desired: &[u32], allowed: &str) -> Option<String> {
    let holds = |part: &str, cpu: u32| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.trim().parse::<u32>().ok());
        first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&cpu))
    };
    let is_allowed = |cpu: u32| allowed.split(',').any(|part| holds(part, cpu));
    let missing: Vec<String> =
        desired.iter().filter(|cpu| !is_allowed(**cpu)).map(u32::to_string).collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(", ");
        format!("this machine has no CPU {missing}, only {allowed}: `stoa run` refuses the configuration here")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cpus_are_named() {
        assert_eq!(missing_of(&[], "0-1"), None);
        assert_eq!(missing_of(&[0, 3, 8], "0-3,8"), None);
        let message = missing_of(&[0, 4, 9], "0-3,8").unwrap_or_default();
        assert!(message.starts_with("this machine has no CPU 4, 9, only 0-3,8"), "{message}");
    }

    #[test]
    fn each_cpu_has_one_worker() {
        let mut errors = ValidationErrors::default();
        let of = v1::Workers { cpus: vec![2, 3], ..v1::Workers::default() };
        let workers = Workers { count: None, of: of.clone() };
        assert_eq!(desired(&workers, &mut errors).count, 2);
        assert_eq!(desired(&Workers::default(), &mut errors).count, 1);
        assert!(errors.is_empty());
        let workers = Workers { count: Some(3), of };
        desired(&workers, &mut errors);
        assert_eq!(errors.into_vec().len(), 1);
    }
}
