//! `commit check`: what a commit of the candidate would refuse or warn about.

use super::access;
use super::author::{Author, Store};
use super::changed_node::errors_at;
use super::device_mtu;
use super::difference::{Change, between};
use super::refusal::{self, Refusal};
use super::stores::Datastore;
use crate::configuration::Configuration;
use crate::warning::Warning;

impl Datastore {
    /// Validates the candidate as a commit does, and changes nothing. Returns its changes and warnings. What only the
    /// forwarder knows, such as a missing device, is not checked, except the MTUs of the devices that are there.
    ///
    /// # Errors
    /// All errors of the candidate.
    pub async fn check(&self, author: &Author) -> Result<(Vec<Change>, Vec<Warning>), Refusal> {
        self.stores().check_conflict()?;
        let (running, candidate) = (self.tree(Store::Running), self.tree(Store::Candidate));
        let startup = self.inner.startup.clone();
        let validated = tokio::task::spawn_blocking(move || {
            let text = stoa_yang::data::print(&candidate.tree)?;
            let changes = between(&running.tree, &candidate.tree)?;
            let found = Configuration::of_data(&startup, &text, &candidate.tree);
            let configuration =
                found.map_err(|errors| Refusal::Invalid(errors_at(&changes, errors)))?;
            Ok::<_, Refusal>((changes, configuration))
        });
        let (changes, configuration) = validated.await.map_err(refusal::panicked)??;
        access::check(&self.inner.connection, author, &configuration)?;
        let mut warnings = configuration.warnings();
        let mtus = self.inner.connection.with_configuration(|held| {
            held.map(|held| device_mtu::on_held_ports(held, &configuration)).unwrap_or_default()
        });
        warnings.extend(device_mtu::warnings(&self.inner.connection, &mtus).await);
        Ok((changes, warnings))
    }
}
