//! What a commit warns about running flows and open connections when stateful rules change.

use stoa_api::v1;

use crate::warning::Warning;

/// What the change of rules means for the flows that there are, and for connections that have none.
pub(crate) fn judged_flows(applied: &v1::Applied) -> Option<Warning> {
    let text = match (applied.flows_to_judge, applied.begins_flows) {
        (0, false) => return None,
        (0, true) => {
            "rules are stateful from now on: TCP connections that are open have no flow, and stateful rules drop their \
             packets as tcp-no-connection until they connect anew; a flow profile with tcp loose picks them up"
                .to_owned()
        }
        (flows, _) => {
            let flows = match flows {
                1 => "1 running flow meets".to_owned(),
                flows => format!("{flows} running flows meet"),
            };
            format!(
                "{flows} the changed rules with the next packet from the side that has begun it: a flow that no \
                 stateful rule accepts ends or is suspended; `stoa show flows --state suspended` lists these"
            )
        }
    };
    Some(Warning::of_machine(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_tells_how_many_flows_it_concerns() {
        let text = |flows_to_judge, begins_flows| {
            let applied = v1::Applied { flows_to_judge, begins_flows, ..v1::Applied::default() };
            judged_flows(&applied).map(|it| it.text)
        };
        assert_eq!(text(0, false), None);
        assert!(text(0, true).unwrap().contains("tcp loose"));
        assert!(text(1, false).unwrap().starts_with("1 running flow meets"));
        assert!(text(12_345, false).unwrap().starts_with("12345 running flows meet"));
    }
}
