//! A reload: reads a file and commits it.

use std::path::PathBuf;

use stoa_api::v1;
use tonic::Status;

use super::{Service, configuration};
use crate::datastore::{Author, Client, Refusal};

impl Service {
    /// Reads and commits `path`, or the startup file.
    ///
    /// # Errors
    /// `Unavailable` when the forwarder does not answer. Errors of the configuration are in the reply.
    pub async fn reload(&self, path: Option<PathBuf>) -> Result<v1::ReloadReply, Status> {
        let path = path.unwrap_or_else(|| self.config.clone());
        let name = path.display().to_string();
        match self.datastore.load(&Author::new("reload", Client::File), path).await {
            Ok(done) => {
                // A change that does not affect packets, such as a description, counts too.
                let changed = done.applied.changed || !done.changes.is_empty();
                let applied = v1::Applied { changed, ..done.applied };
                tracing::info!(path = name, changed = applied.changed, "configuration reloaded");
                let warnings = configuration::texts(&done.warnings);
                Ok(v1::ReloadReply { applied: true, what: Some(applied), warnings, errors: vec![] })
            }
            Err(Refusal::Unreachable(reason)) => Err(Status::unavailable(format!(
                "{reason}. The running configuration stays in effect; check the log, then try again."
            ))),
            Err(refusal) => Ok(refused(refusal.errors())),
        }
    }
}

fn refused(errors: Vec<v1::ValidationError>) -> v1::ReloadReply {
    tracing::warn!(errors = errors.len(), "reload refused; the running configuration is unchanged");
    v1::ReloadReply { applied: false, errors, ..v1::ReloadReply::default() }
}
