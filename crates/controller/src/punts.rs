//! Budgets of the control plane: what packets of a class may cost.

use stoa_api::v1;

use crate::finding::Findings;
use crate::model::Punt;

/// The wanted budgets.
pub fn wanted(punt: &Punt, findings: &mut Findings) -> Vec<v1::PuntLimit> {
    for class in punt.class.iter().filter(|class| class.total > 0 && class.total < class.rate) {
        findings.add(
            format!("/stoa-system:system/punt/class[name='{}']/total", class.name),
            format!(
                "all interfaces together may have {} packets a second, and one alone {}",
                class.total, class.rate
            ),
            "Give a total of at least the rate, or remove it.",
        );
    }
    let limit = |class: &crate::model::PuntClass| v1::PuntLimit {
        class: class.name.clone(),
        rate: class.rate,
        burst: class.burst,
        total: class.total,
    };
    punt.class.iter().map(limit).collect()
}
