//! The control-plane policer: limits of punt classes.

use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::model::Punt;

/// The desired limits.
pub fn desired(punt: &Punt, errors: &mut ValidationErrors) -> Vec<v1::PuntLimit> {
    for class in punt.class.iter().filter(|class| class.total > 0 && class.total < class.rate) {
        errors.add(
            format!("/stoa-system:system/punt/class[name='{}']/total", class.name),
            format!(
                "the total of all interfaces is {} packets per second, less than the rate of one, {}",
                class.total, class.rate
            ),
            "Set total to at least the rate, or remove it.",
        );
    }
    let limit = |class: &crate::config::model::PuntClass| v1::PuntLimit {
        class: class.name.clone(),
        rate: class.rate,
        burst: class.burst,
        total: class.total,
    };
    punt.class.iter().map(limit).collect()
}
