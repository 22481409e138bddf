//! Workers: how many, on which processors, with how much packet memory.

use stoa_api::v1;

use crate::finding::Findings;
use crate::model::{HugePages, Polling, Workers};

const PLACE: &str = "/stoa-system:system/workers";

/// The wanted workers.
pub fn wanted(workers: &Workers, findings: &mut Findings) -> v1::Workers {
    let pinned = u32::try_from(workers.cpus.len()).unwrap_or(u32::MAX);
    if let Some(count) = workers.count
        && pinned != 0
        && pinned != count
    {
        findings.add(
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
            HugePages::WhenThere => v1::HugePages::WhenThere,
            HugePages::Never => v1::HugePages::Never,
            HugePages::Required => v1::HugePages::Required,
        }
        .into(),
        kernel: workers.kernel.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_for_each_processor() {
        let mut findings = Findings::default();
        let workers = Workers { cpus: vec![2, 3], ..Workers::default() };
        assert_eq!(wanted(&workers, &mut findings).count, 2);
        assert_eq!(wanted(&Workers::default(), &mut findings).count, 1);
        assert!(findings.is_empty());
        let workers = Workers { count: Some(3), cpus: vec![2, 3], ..Workers::default() };
        wanted(&workers, &mut findings);
        assert_eq!(findings.into_vec().len(), 1);
    }
}
