//! The commit of a part: a change of few entries among many. Its cost follows the part: nothing is compared, validated,
//! translated or written for each static route or interface.

use std::sync::Arc;
use std::time::Instant;

use stoa_api::v1;

use super::access;
use super::author::Author;
use super::bulk::Core;
use super::candidate::Candidate;
use super::commit::{Commit, Committed, Origin};
use super::device_mtu;
use super::difference::{Change, between};
use super::disk::NewFile;
use super::part::{Part, difference, with_changes};
use super::recovery;
use super::refusal::{self, Refusal};
use super::snapshot::Snapshot;
use super::stores::{Datastore, Event};
use crate::acl::judged_flows;
use crate::configuration::{ChangedPart, Configuration};
use crate::warning::Warning;

/// What a commit of a part does.
struct Plan {
    /// The entry of the history that is running.
    base: u64,
    configuration: Configuration,
    changes: Arc<[Change]>,
    /// The text of the changes.
    difference: String,
}

/// The milliseconds of the parts of a commit.
struct Parts(Instant, Vec<u128>);

impl Parts {
    fn next(&mut self) {
        self.1.push(self.0.elapsed().as_millis());
        self.0 = Instant::now();
    }
}

impl Datastore {
    /// Validates and commits running with a changed part. The caller holds the writer.
    pub(super) async fn commit_part(
        &self,
        author: &Author,
        part: Part,
        commit: &Commit,
    ) -> Result<Committed, Refusal> {
        let mut parts = Parts(Instant::now(), Vec::new());
        if let Some(plan) = self.plan(&part, commit).await? {
            parts.next();
            return self.carry_out(author, part, plan, commit, parts).await;
        }
        let (running, own) = (Arc::clone(&self.stores().running), part.clone());
        let whole = tokio::task::spawn_blocking(move || {
            with_changes(&running.tree, &own.before, &own.after.tree).map(Arc::new)
        });
        let tree = whole.await.map_err(refusal::panicked)??;
        {
            let mut stores = self.stores();
            if let Candidate::Part(own) = &stores.candidate
                && Arc::ptr_eq(&own.after, &part.after)
            {
                let same = Snapshot { tree: Arc::clone(&tree), ..*part.after };
                stores.candidate = Candidate::Whole(Arc::new(same));
            }
        }
        self.commit_tree(author, tree, commit).await
    }

    /// Whether and how a commit of a part is possible. Without a plan the whole is committed, which also finds the
    /// errors.
    async fn plan(&self, part: &Part, commit: &Commit) -> Result<Option<Plan>, Refusal> {
        let has_no_entry = {
            let stores = self.stores();
            stores.core.is_some() && stores.entry.is_none()
        };
        if has_no_entry {
            // The saver may be about to write it.
            drop(self.inner.saving.lock().await);
        }
        let is_plain = commit.origin == Origin::Client && commit.confirm_within.is_none();
        let (base, bulk) = {
            let stores = self.stores();
            let file = stores.startup_file.as_ref();
            // While the startup file cannot be written, the commit of the whole is refused for that reason.
            let is_saved = !stores.is_save_failing
                && stores.startup.is_none()
                && stores.unconfirmed.is_none()
                && file.is_some_and(|file| file.is_untouched(&self.inner.startup));
            let has_own_bulk = matches!(stores.candidate, Candidate::Whole(_));
            match (stores.entry, &stores.core) {
                (Some(base), Some(core)) if is_plain && is_saved && !has_own_bulk => {
                    (base, core.bulk)
                }
                _ => return Ok(None),
            }
        };
        let Some(running) = self.inner.connection.configuration() else { return Ok(None) };
        let (part, startup) = (part.clone(), self.inner.startup.clone());
        let data = Arc::clone(&self.stores().running);
        let planned = tokio::task::spawn_blocking(move || {
            let (before, after) = (&part.before, &part.after.tree);
            let changes: Arc<[Change]> = between(before, after)?.into();
            if changes.is_empty() {
                return Ok(None);
            }
            let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
            let mut changed = ChangedPart { before, after, paths: &paths };
            let with_references = match bulk.interfaces && !changed.has_own_leafs_only() {
                true => part.clone().with_references(&data.tree)?,
                false => Some(part.clone()),
            };
            // Running is changed in place, unless somebody reads it.
            drop(data);
            let Some(referring) = with_references else { return Ok(None) };
            changed.before = &referring.before;
            changed.after = &referring.after.tree;
            let Some(configuration) = running.with_part(&startup, bulk, changed) else {
                return Ok(None);
            };
            let difference = stoa_yang::data::difference(before, after)?;
            Ok(Some(Plan { base, configuration, changes, difference }))
        });
        planned.await.map_err(refusal::panicked)?
    }

    async fn carry_out(
        &self,
        author: &Author,
        part: Part,
        plan: Plan,
        commit: &Commit,
        mut parts: Parts,
    ) -> Result<Committed, Refusal> {
        let Plan { base, configuration, changes, difference } = plan;
        if !commit.is_forced {
            access::check(&self.inner.connection, author, &configuration)?;
        }
        let was_unsaved = self.stores().is_unsaved;
        if !was_unsaved {
            recovery::mark(&self.inner.state, base)?;
            self.stores().is_unsaved = true;
        }
        let mut found = configuration.warnings();
        let mtus = self.inner.connection.with_configuration(|held| match held {
            Some(held) => device_mtu::changed(held, &configuration),
            None => device_mtu::desired(&configuration),
        });
        let done = self.write_and_apply(author, commit, &difference, configuration, &mut parts);
        let (number, file, applied) = match done.await {
            Ok(done) => done,
            Err(refusal) => {
                if !was_unsaved {
                    recovery::unmark(&self.inner.state);
                    self.stores().is_unsaved = false;
                }
                return Err(refusal);
            }
        };
        // Before the entry is renamed: a restarted controller completes the commit.
        self.inner.running_file.store_after(&self.inner.startup, base, &difference);
        let not_saved = file.rename().err().map(|error| {
            format!("in effect, but not saved: the history cannot be written: {error}")
        });
        let number = if not_saved.is_some() { 0 } else { number };
        self.replace_part(author, &part, &changes, number)?;
        parts.next();
        found.extend(device_mtu::warnings(&self.inner.connection, &mtus).await);
        let mut warnings = self.inner.reported.of_commit(found, &changes, false);
        warnings.extend(judged_flows(&applied));
        warnings.extend(not_saved.map(Warning::of_machine));
        let Author { name, client, .. } = author;
        tracing::info!(author = name, %client, number, changed_nodes = changes.len(), "committed");
        if let [validate_ms, write_ms, apply_ms, store_ms] = parts.1[..] {
            tracing::debug!(validate_ms, write_ms, apply_ms, store_ms, "parts of a commit");
        }
        let event = Event::Changed { author: author.clone(), number, changes: changes.clone() };
        self.publish(Event::Edited);
        self.publish(event);
        self.inner.saver.notify_one();
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        // A part is not committed while a commit waits for its confirmation.
        let (confirm_by, earlier) = (None, None);
        Ok(Committed { number, changes, applied, warnings, confirm_by, earlier })
    }

    /// Writes the entry of the history under its temporary name, so that a disk error occurs before anything changes,
    /// and applies the configuration.
    async fn write_and_apply(
        &self,
        author: &Author,
        commit: &Commit,
        difference: &str,
        configuration: Configuration,
        parts: &mut Parts,
    ) -> Result<(u64, NewFile, v1::Applied), Refusal> {
        let past = self.history_files();
        let (number, file) = past.write_difference(author, &commit.comment, difference)?;
        parts.next();
        let applied = self.inner.connection.commit(configuration).await?;
        parts.next();
        Ok((number, file, applied))
    }

    /// Sets a part of running: in place, unless somebody reads running.
    fn replace_part(
        &self,
        author: &Author,
        part: &Part,
        changes: &[Change],
        number: u64,
    ) -> Result<(), Refusal> {
        let after = &part.after.tree;
        let difference = difference(&part.before, after).map_err(refusal::yang)?;
        let mut stores = self.stores();
        let Some(bulk) = stores.core.as_ref().map(|core| core.bulk) else { return Ok(()) };
        let revision = stores.next_revision();
        let own = Arc::get_mut(&mut stores.running)
            .and_then(|running| Arc::get_mut(&mut running.tree))
            .map(|tree| tree.diff_apply(&difference));
        let tree = match own {
            Some(Ok(())) => Arc::clone(&stores.running.tree),
            // A part of the changes may be in the tree.
            Some(Err(_)) => {
                stoa_yang::data::parse(&self.history_files().text(number)?).map(Arc::new)?
            }
            None => with_changes(&stores.running.tree, &part.before, after).map(Arc::new)?,
        };
        stores.running = Arc::new(Snapshot::new(tree, revision));
        stores.core = Some(match part.entries.is_empty() {
            true => Core { bulk, tree: Arc::clone(after) },
            false => Core::new(bulk, after)?,
        });
        stores.entry = (number > 0).then_some(number);
        stores.rebase_part(author, part, changes);
        Ok(())
    }
}
