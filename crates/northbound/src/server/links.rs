//! Link changes of interfaces for subscribers. The forwarder is polled while there are subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;

use super::app_state::AppState;

/// Interval between polls of the forwarder.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Changes that one poll reports; the others follow with the next one.
const CHANGES: usize = 100;
/// Events that a slow subscriber may lag behind; it loses older ones.
pub const EVENTS: usize = 256;

/// An interface that went up or down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface.
    pub name: String,
    /// Whether it is up now.
    pub is_up: bool,
}

/// The last reported states.
#[derive(Debug, Default)]
struct LinkStates {
    up: BTreeMap<String, bool>,
}

impl LinkStates {
    /// Changes since the last poll. A new or removed interface did not go up or down.
    fn changed(&mut self, now: impl Iterator<Item = (String, bool)>) -> Vec<Link> {
        let now: BTreeMap<String, bool> = now.collect();
        self.up.retain(|name, _| now.contains_key(name));
        let mut changed = Vec::new();
        for (name, is_up) in now {
            match self.up.get(&name) {
                Some(was) if *was == is_up => continue,
                // Reported after the next poll.
                Some(_) if changed.len() >= CHANGES => continue,
                Some(_) => changed.push(Link { name: name.clone(), is_up }),
                None => {}
            }
            self.up.insert(name, is_up);
        }
        changed
    }
}

/// Reports until the program ends.
pub(super) async fn watch(app: Arc<AppState>) {
    let mut known: Option<LinkStates> = None;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if app.links.receiver_count() == 0 {
            known = None;
            continue;
        }
        let request = v1::ListInterfacesRequest::default();
        let asked = app.datastore.connection().client().list_interfaces(request).await;
        // While the forwarder does not answer, the state is unknown; changes are reported afterwards.
        let Ok(reply) = asked else { continue };
        let interfaces = reply.into_inner().interfaces.into_iter().map(|it| (it.name, it.up));
        for link in known.get_or_insert_default().changed(interfaces) {
            // There may be no subscriber.
            let _ = app.links.send(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(known: &mut LinkStates, now: &[(&str, bool)]) -> Vec<(String, bool)> {
        let now = now.iter().map(|(name, is_up)| ((*name).to_owned(), *is_up));
        known.changed(now).into_iter().map(|link| (link.name, link.is_up)).collect()
    }

    #[test]
    fn changes_are_reported_once_and_beginnings_are_none() {
        let mut known = LinkStates::default();
        assert_eq!(look(&mut known, &[("a", true), ("b", false)]), []);
        assert_eq!(look(&mut known, &[("a", false), ("b", false)]), [("a".into(), false)]);
        assert_eq!(look(&mut known, &[("a", false), ("c", true)]), []);
        assert_eq!(
            look(&mut known, &[("a", true), ("b", true), ("c", true)]),
            [("a".into(), true)]
        );
    }

    #[test]
    fn what_is_too_much_for_one_look_comes_with_the_next() {
        let names: Vec<String> = (0..250).map(|it| format!("if{it:03}")).collect();
        let all = |is_up: bool| names.iter().map(move |name| (name.clone(), is_up));
        let mut known = LinkStates::default();
        assert!(known.changed(all(false)).is_empty());
        let reported: Vec<usize> = (0..4).map(|_| known.changed(all(true)).len()).collect();
        assert_eq!(reported, [100, 100, 50, 0]);
    }
}
