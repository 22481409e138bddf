//! Budgets of the control plane: what packets of a class may cost.

use stoa_api::v1;

use crate::error::ValidationErrors;
use crate::model::Punt;

/// The desired budgets.
pub fn desired(punt: &Punt, errors: &mut ValidationErrors) -> Vec<v1::PuntLimit> {
    for class in punt.class.iter().filter(|class| class.total > 0 && class.total < class.rate) {
        errors.add(
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
