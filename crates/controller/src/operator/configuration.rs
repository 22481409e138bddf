//! The calls of the Operator service to the datastores.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::unistd::{Uid, User};
use stoa_api::v1;
use stoa_api::v1::{compare_request, configuration_edit, show_configuration_request};
use stoa_yang::order::Place;
use tokio_stream::Stream;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};
use yang5::data::DataTree;

use super::Service;
use super::printed::print;
use crate::datastore::{
    self, AccessPath, Author, Change, Client, Commit, Committed, Datastore, Earlier, Edit, Kind,
    LockGuard, LockHolder, Origin, Outcome, Refusal, Store,
};
use crate::warning::Warning;

/// Longest login name.
const LOGIN_LIMIT: usize = 64;

/// The stream that holds a lock.
pub type Locks = Pin<Box<dyn Stream<Item = Result<v1::LockReply, Status>> + Send + 'static>>;

/// The author of a request: the user of the peer process, and the login name before sudo.
fn author<T>(request: &Request<T>, caller: Option<&v1::Caller>) -> Author {
    let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    let uid = peer.map(|peer| Uid::from_raw(peer.uid()));
    let user = uid.map(|uid| match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => format!("user {uid}"),
    });
    let user = user.unwrap_or_else(|| "unknown".to_owned());
    let login = caller.map(|caller| caller.login.as_str()).unwrap_or_default();
    let login: String =
        login.chars().filter(|letter| !letter.is_control()).take(LOGIN_LIMIT).collect();
    let name = if login.is_empty() || login == user { user } else { format!("{login} ({user})") };
    let client =
        if caller.is_some_and(|it| it.is_console) { Client::Console } else { Client::Shell };
    let access_path = caller.and_then(access_path);
    Author { name, client, session: caller.map_or(0, |caller| caller.session), access_path }
}

/// The connection of a remote shell. No commit can cut off the Unix socket itself.
fn access_path(caller: &v1::Caller) -> Option<AccessPath> {
    let local: std::net::IpAddr = caller.local_address.parse().ok()?;
    let port = u16::try_from(caller.local_port).ok()?;
    // Without a port, nobody can say which rule the connection meets.
    let peer = caller.peer_address.parse().ok().filter(|_| port != 0);
    Some(AccessPath { local: (local, port).into(), peer, credential: None })
}

fn store(number: i32) -> Store {
    match v1::Store::try_from(number) {
        Ok(v1::Store::Running) => Store::Running,
        Ok(v1::Store::Startup) => Store::Startup,
        _ => Store::Candidate,
    }
}

fn edit(edit: v1::ConfigurationEdit) -> Result<Edit, Status> {
    match edit.edit {
        Some(configuration_edit::Edit::Merge(body)) => Ok(Edit::Merge { body }),
        Some(configuration_edit::Edit::Replace(it)) => {
            Ok(Edit::Replace { path: it.path, body: it.body })
        }
        Some(configuration_edit::Edit::Delete(path)) => Ok(Edit::Delete { path }),
        Some(configuration_edit::Edit::Set(it)) => Ok(Edit::Set { path: it.path, value: it.value }),
        Some(configuration_edit::Edit::Move(it)) => {
            let place = match it.place() {
                v1::move_edit::Place::First => Place::First,
                v1::move_edit::Place::Last => Place::Last,
                v1::move_edit::Place::Before => Place::Before(it.point),
                v1::move_edit::Place::After => Place::After(it.point),
            };
            Ok(Edit::Move { path: it.path, place })
        }
        None => Err(Status::invalid_argument("the edit is empty")),
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn change(change: &Change) -> v1::ConfigurationChange {
    let kind = match change.kind {
        Kind::Create => v1::ChangeKind::Create,
        Kind::Delete => v1::ChangeKind::Delete,
        Kind::Replace => v1::ChangeKind::Replace,
    };
    let Change { path, old, new, .. } = change.clone();
    v1::ConfigurationChange { kind: kind.into(), path, old, new }
}

/// Who may use the socket may read everything.
pub(super) fn texts(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

fn committed(result: Result<Committed, Refusal>) -> v1::CommitReply {
    match result {
        Ok(done) => v1::CommitReply {
            errors: vec![],
            number: done.number,
            changes: done.changes.iter().map(change).collect(),
            applied: Some(done.applied),
            warnings: texts(&done.warnings),
            confirm_by_unix_ms: done.confirm_by.map_or(0, unix_ms),
            earlier: done.earlier.map(earlier),
        },
        Err(refusal) => v1::CommitReply { errors: refusal.errors(), ..Default::default() },
    }
}

fn earlier(earlier: Earlier) -> v1::EarlierCommit {
    use v1::earlier_commit::Outcome as Sent;
    let outcome = match earlier.outcome {
        Outcome::Unchanged => Sent::Unchanged,
        Outcome::Confirmed => Sent::Confirmed,
        Outcome::RolledBack => Sent::RolledBack,
    };
    v1::EarlierCommit { author: earlier.author, outcome: outcome.into() }
}

/// The deadline of the unconfirmed commit in milliseconds since 1970; 0: there is none.
pub(super) fn confirm_by(datastore: &Datastore) -> u64 {
    datastore.unconfirmed().map_or(0, |unconfirmed| unix_ms(unconfirmed.deadline))
}

/// The author of the unconfirmed commit; "": there is none.
pub(super) fn unconfirmed_author(datastore: &Datastore) -> String {
    datastore.unconfirmed().map(|unconfirmed| unconfirmed.author).unwrap_or_default()
}

/// Who has locked the configuration.
pub(super) fn lock(datastore: &Datastore) -> Option<v1::LockHolder> {
    let LockHolder { name, client, since, .. } = datastore.holder()?;
    let since_unix_ms = unix_ms(since);
    Some(v1::LockHolder { author: name, client: client.to_string(), since_unix_ms })
}

fn compared(changes: Result<Vec<Change>, Refusal>) -> v1::CompareReply {
    match changes {
        Ok(changes) => {
            v1::CompareReply { changes: changes.iter().map(change).collect(), errors: vec![] }
        }
        Err(refusal) => v1::CompareReply { changes: vec![], errors: refusal.errors() },
    }
}

fn edited<T>(result: Result<T, Refusal>) -> v1::EditReply {
    v1::EditReply { errors: result.err().map(Refusal::errors).unwrap_or_default() }
}

impl Service {
    pub(super) async fn edit_candidate(
        &self,
        request: Request<v1::EditRequest>,
    ) -> Result<v1::EditReply, Status> {
        let author = author(&request, request.get_ref().caller.as_ref());
        let edits = request.into_inner().edits.into_iter().map(edit).collect::<Result<_, _>>()?;
        Ok(edited(self.datastore.edit(&author, Store::Candidate, edits, None).await))
    }

    pub(super) async fn commit_candidate(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> v1::CommitReply {
        let author = author(&request, request.get_ref().caller.as_ref());
        let request = request.into_inner();
        if request.is_check {
            return match self.datastore.check(&author).await {
                Ok((changes, warnings)) => v1::CommitReply {
                    changes: changes.iter().map(change).collect(),
                    warnings: texts(&warnings),
                    ..v1::CommitReply::default()
                },
                Err(refusal) => {
                    v1::CommitReply { errors: refusal.errors(), ..v1::CommitReply::default() }
                }
            };
        }
        let within = u64::from(request.confirm_within_s);
        let commit = Commit {
            comment: request.comment,
            confirm_within: (within > 0).then(|| Duration::from_secs(within)),
            is_overwriting: request.is_overwriting,
            is_forced: request.is_forced,
            origin: Origin::Client,
            if_match: None,
        };
        committed(self.datastore.commit(&author, commit).await)
    }

    pub(super) async fn confirm_commit(
        &self,
        request: Request<v1::ConfirmRequest>,
    ) -> v1::CommitReply {
        let author = author(&request, request.get_ref().caller.as_ref());
        let v1::ConfirmRequest { comment, is_cancelled, .. } = request.into_inner();
        committed(match is_cancelled {
            true => self.datastore.cancel(&author).await,
            false => self.datastore.confirm(&author, &comment).await,
        })
    }

    pub(super) async fn discard_candidate(
        &self,
        request: Request<v1::DiscardRequest>,
    ) -> v1::EditReply {
        let author = author(&request, request.get_ref().caller.as_ref());
        edited(self.datastore.discard(&author).await)
    }

    pub(super) async fn roll_back(&self, request: Request<v1::RollbackRequest>) -> v1::EditReply {
        let author = author(&request, request.get_ref().caller.as_ref());
        edited(self.datastore.rollback(&author, request.get_ref().back as usize).await)
    }

    pub(super) fn configuration(
        &self,
        request: &v1::ShowConfigurationRequest,
    ) -> v1::ShowConfigurationReply {
        let tree = match request.which {
            Some(show_configuration_request::Which::Number(number)) => self.history_tree(number),
            Some(show_configuration_request::Which::Store(number)) => {
                Ok(self.store_tree(store(number)))
            }
            None => Ok(self.store_tree(Store::Running)),
        };
        match tree.and_then(|tree| print(&tree, request)) {
            Ok(text) => v1::ShowConfigurationReply { text, errors: vec![] },
            Err(refusal) => v1::ShowConfigurationReply {
                errors: refusal.errors(),
                ..v1::ShowConfigurationReply::default()
            },
        }
    }

    fn history_tree(&self, number: u64) -> Result<Arc<DataTree<'static>>, Refusal> {
        Ok(self.datastore.history_tree(number)?.tree)
    }

    fn store_tree(&self, store: Store) -> Arc<DataTree<'static>> {
        Arc::clone(&self.datastore.tree(store).tree)
    }

    pub(super) fn compare_stores(&self, request: &v1::CompareRequest) -> v1::CompareReply {
        use compare_request::{New, Old};
        if let (Some(Old::OldStore(_)) | None, Some(New::NewStore(_)) | None) =
            (&request.old, &request.new)
        {
            let old = match request.old {
                Some(Old::OldStore(number)) => store(number),
                _ => Store::Running,
            };
            let new = match request.new {
                Some(New::NewStore(number)) => store(number),
                _ => Store::Candidate,
            };
            return compared(self.datastore.difference(old, new));
        }
        let old = match request.old {
            Some(Old::OldNumber(number)) => self.history_tree(number),
            Some(Old::OldStore(number)) => Ok(self.store_tree(store(number))),
            None => Ok(self.store_tree(Store::Running)),
        };
        let new = match request.new {
            Some(New::NewNumber(number)) => self.history_tree(number),
            Some(New::NewStore(number)) => Ok(self.store_tree(store(number))),
            None => Ok(self.store_tree(Store::Candidate)),
        };
        let both = old.and_then(|old| Ok((old, new?)));
        let changes = both.and_then(|(old, new)| datastore::between(&old, &new));
        compared(changes)
    }

    pub(super) fn history(&self) -> v1::ShowHistoryReply {
        let entry = |entry: datastore::Entry| v1::HistoryEntry {
            number: entry.number,
            time: entry.time,
            author: entry.author,
            client: entry.client.to_string(),
            comment: entry.comment,
        };
        v1::ShowHistoryReply {
            entries: self.datastore.history().into_iter().map(entry).collect(),
            holder: self.datastore.holder().map(|it| it.to_string()).unwrap_or_default(),
            is_edited: self.datastore.is_edited(),
            confirm_by_unix_ms: confirm_by(&self.datastore),
        }
    }

    pub(super) fn take_lock(&self, request: &Request<v1::LockRequest>) -> Locks {
        let author = author(request, request.get_ref().caller.as_ref());
        match self.datastore.lock(&author) {
            Ok(held) => Box::pin(HeldLock { lock: held, is_sent: false }),
            Err(refusal) => {
                let reply = v1::LockReply { session: 0, errors: refusal.errors() };
                Box::pin(tokio_stream::once(Ok(reply)))
            }
        }
    }
}

/// A stream that sends one reply and holds the lock until it is dropped.
struct HeldLock {
    lock: LockGuard,
    is_sent: bool,
}

impl Stream for HeldLock {
    type Item = Result<v1::LockReply, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        if std::mem::replace(&mut self.is_sent, true) {
            // Ends when the client drops the call.
            return std::task::Poll::Pending;
        }
        let reply = v1::LockReply { session: self.lock.session(), errors: vec![] };
        std::task::Poll::Ready(Some(Ok(reply)))
    }
}
