//! Calls to the datastores of a running router.

use stoa_api::v1;
use stoa_api::v1::ValidationError;
use stoa_api::v1::operator_client::OperatorClient;
use stoa_api::v1::{configuration_edit, show_configuration_request};
use stoa_yang::data::parse;
use tonic::Streaming;
use tonic::transport::Channel;
use yang5::data::DataTree;

use crate::commit::Commit;
use crate::line::{split, statements};
use crate::{show, words};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command is wrong.
    Words(String),
    /// The router refused: a summary and its errors.
    Refused(String, Vec<ValidationError>),
    /// The call failed.
    Status(Box<tonic::Status>),
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Failure {
        Failure::Status(Box::new(status))
    }
}

impl From<words::Error> for Failure {
    fn from(error: words::Error) -> Failure {
        Failure::Words(error.to_string())
    }
}

/// Edits of one text up to which the types of interfaces are completed: each interface takes requests of its own.
const TYPES_LIMIT: usize = 1_000;

/// The format of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// In braces.
    #[default]
    Braces,
    /// As `set` lines.
    Set,
    /// RFC 7951.
    Json,
    /// RFC 7950.
    Xml,
}

/// Which configuration is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of a datastore.
    Store(v1::Store),
    /// That of the history with this number.
    Number(u64),
}

/// A session that edits the configuration.
#[derive(Clone, Debug)]
pub struct Session {
    client: OperatorClient<Channel>,
    caller: v1::Caller,
}

impl Session {
    /// A session of the interactive console (`is_console`) or of a command.
    pub fn new(client: OperatorClient<Channel>, is_console: bool) -> Session {
        // The author is the user who called sudo, not root.
        let login = std::env::var("SUDO_USER").unwrap_or_default();
        // Set by sshd: CLIENT PORT SERVER PORT.
        let ssh = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let mut ends = ssh.split(' ').map(str::to_owned);
        let peer_address = ends.next().unwrap_or_default();
        let local_address = ends.nth(1).unwrap_or_default();
        let local_port = ends.next().and_then(|port| port.parse().ok()).unwrap_or_default();
        let session = 0;
        let caller =
            v1::Caller { login, is_console, session, local_address, local_port, peer_address };
        Session { client, caller }
    }

    fn caller(&self) -> Option<v1::Caller> {
        Some(self.caller.clone())
    }

    /// Takes the lock, which is held until the returned stream is dropped.
    ///
    /// # Errors
    /// When another session holds it.
    pub async fn lock(&mut self) -> Result<Streaming<v1::LockReply>, Failure> {
        let request = v1::LockRequest { caller: self.caller() };
        let mut held = self.client.lock(request).await?.into_inner();
        let reply = held.message().await?.unwrap_or_default();
        refused("not locked", reply.errors)?;
        self.caller.session = reply.session;
        Ok(held)
    }

    /// Releases the lock.
    pub fn unlock(&mut self, held: Streaming<v1::LockReply>) {
        drop(held);
        self.caller.session = 0;
    }

    pub(crate) async fn edit(
        &mut self,
        edits: Vec<configuration_edit::Edit>,
    ) -> Result<(), Failure> {
        let edits = edits.into_iter().map(|edit| v1::ConfigurationEdit { edit: Some(edit) });
        let request = v1::EditRequest { caller: self.caller(), edits: edits.collect() };
        let reply = self.client.edit(request).await?.into_inner();
        refused("not changed; the candidate is as before", reply.errors)
    }

    /// `set WORDS` in the candidate. Returns the prefixes that addresses without a length stand for.
    ///
    /// # Errors
    /// When the path or the value is wrong.
    pub async fn set(&mut self, words: &[String]) -> Result<Vec<String>, Failure> {
        let edits = self.with_types(sets(words)?).await?;
        self.edit(edits).await?;
        Ok(words::parse(words)?.host_prefixes)
    }

    /// `delete WORDS` in the candidate.
    ///
    /// # Errors
    /// When the path is wrong or does not exist.
    pub async fn delete(&mut self, words: &[String]) -> Result<(), Failure> {
        let path = words::to_delete(words)?;
        self.edit(vec![configuration_edit::Edit::Delete(path)]).await
    }

    /// `load`: replaces the candidate by a text or merges the text into it. The text is JSON or lines of `set` and
    /// `delete`.
    ///
    /// # Errors
    /// When the text is wrong.
    pub async fn load(&mut self, text: &str, is_merged: bool) -> Result<(), Failure> {
        let mut edits = Vec::new();
        let is_json = text.trim_start().starts_with('{');
        if !is_merged {
            let body = if is_json { text.to_owned() } else { "{}".to_owned() };
            let all = v1::ReplaceEdit { path: "/".into(), body };
            edits.push(configuration_edit::Edit::Replace(all));
        } else if is_json {
            edits.push(configuration_edit::Edit::Merge(text.to_owned()));
        }
        if !is_json {
            edits.extend(text_edits(text)?);
        }
        if edits.len() <= TYPES_LIMIT {
            edits = self.with_types(edits).await?;
        }
        self.edit(edits).await
    }

    /// `commit` with all its arguments.
    ///
    /// # Errors
    /// All errors of the candidate.
    pub async fn commit(&mut self, commit: Commit) -> Result<v1::CommitReply, Failure> {
        let reply = if commit.is_cancelled {
            let comment = commit.comment;
            let caller = self.caller();
            let request = v1::ConfirmRequest { caller, comment, is_cancelled: true };
            self.client.confirm(request).await?
        } else {
            let within = commit.confirm_within.unwrap_or_default().as_secs();
            let request = v1::CommitRequest {
                caller: self.caller(),
                comment: commit.comment,
                confirm_within_s: u32::try_from(within).unwrap_or(u32::MAX),
                is_overwriting: commit.is_overwriting,
                is_forced: commit.is_forced,
                is_check: commit.is_check,
            };
            self.client.commit(request).await?
        };
        let mut reply = reply.into_inner();
        refused(
            "refused; the running configuration is unchanged",
            std::mem::take(&mut reply.errors),
        )?;
        Ok(reply)
    }

    /// `discard`: resets the candidate to running.
    ///
    /// # Errors
    /// When another session holds the lock.
    pub async fn discard(&mut self) -> Result<(), Failure> {
        let request = v1::DiscardRequest { caller: self.caller() };
        refused("not discarded", self.client.discard(request).await?.into_inner().errors)
    }

    /// `rollback N`: copies an earlier configuration to the candidate.
    ///
    /// # Errors
    /// When the history has no such configuration, or another session holds the lock.
    pub async fn rollback(&mut self, back: u32) -> Result<(), Failure> {
        let request = v1::RollbackRequest { caller: self.caller(), back };
        refused("not rolled back", self.client.rollback(request).await?.into_inner().errors)
    }

    /// A configuration, or a part of it, as text.
    ///
    /// # Errors
    /// When the path is wrong or does not exist.
    pub async fn show(
        &mut self,
        which: Which,
        words: &[String],
        format: Format,
    ) -> Result<String, Failure> {
        let path = show::path(words)?;
        if matches!(format, Format::Braces | Format::Set) {
            let tree = self.tree(which).await?;
            return Ok(match format {
                Format::Set => show::lines(&tree, &path),
                _ => show::braces(&tree, &path),
            });
        }
        let encoding = match format {
            Format::Xml => v1::ConfigurationFormat::Xml,
            _ => v1::ConfigurationFormat::Json,
        };
        let path = if path == "/" { String::new() } else { path };
        self.text(which, encoding, path).await
    }

    pub(crate) async fn text(
        &mut self,
        which: Which,
        format: v1::ConfigurationFormat,
        path: String,
    ) -> Result<String, Failure> {
        let which = Some(match which {
            Which::Store(store) => show_configuration_request::Which::Store(store.into()),
            Which::Number(number) => show_configuration_request::Which::Number(number),
        });
        let request = v1::ShowConfigurationRequest {
            which,
            format: format.into(),
            path,
            ..v1::ShowConfigurationRequest::default()
        };
        let reply = self.client.show_configuration(request).await?.into_inner();
        refused("not shown", reply.errors)?;
        Ok(reply.text)
    }

    /// A configuration as data.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub async fn tree(&mut self, which: Which) -> Result<DataTree<'static>, Failure> {
        let text = self.text(which, v1::ConfigurationFormat::Json, String::new()).await?;
        parse(&text).map_err(|errors| Failure::Refused("not shown".into(), errors))
    }

    /// The differences of two configurations.
    ///
    /// # Errors
    /// When one of them does not exist.
    pub async fn compare(
        &mut self,
        request: v1::CompareRequest,
    ) -> Result<Vec<v1::ConfigurationChange>, Failure> {
        let reply = self.client.compare(request).await?.into_inner();
        refused("not compared", reply.errors)?;
        Ok(reply.changes)
    }

    /// The history of the configuration and the holder of the lock.
    ///
    /// # Errors
    /// When the router does not answer.
    pub async fn history(&mut self) -> Result<v1::ShowHistoryReply, Failure> {
        Ok(self.client.show_history(v1::ShowHistoryRequest {}).await?.into_inner())
    }
}

fn refused(summary: &str, errors: Vec<ValidationError>) -> Result<(), Failure> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Refused(summary.to_owned(), errors)),
    }
}

/// The edits of `set`.
pub(crate) fn sets(words: &[String]) -> Result<Vec<configuration_edit::Edit>, words::Error> {
    let all = words::to_sets(words)?.into_iter();
    Ok(all
        .map(|(path, value)| configuration_edit::Edit::Set(v1::SetEdit { path, value }))
        .collect())
}

/// The edits of lines of `set` and `delete`, whose quoted words may have line ends.
fn text_edits(text: &str) -> Result<Vec<configuration_edit::Edit>, Failure> {
    let mut edits = Vec::new();
    for (number, line) in statements(text) {
        let failure = |cause: String| Failure::Words(format!("line {number}: {cause}"));
        edits.extend(line_edit(line).map_err(failure)?);
    }
    Ok(edits)
}

/// The edits of a line of `set` or `delete`; none for an empty line or a comment.
fn line_edit(line: &str) -> Result<Vec<configuration_edit::Edit>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Vec::new());
    }
    let words = split(line).map_err(|quote| format!("the quote {quote} is not closed"))?;
    let edit = match words[0].as_str() {
        "set" => sets(&words[1..]),
        "delete" => {
            words::to_delete(&words[1..]).map(|path| vec![configuration_edit::Edit::Delete(path)])
        }
        other => {
            return Err(format!("\"{other}\" is unknown: a line begins with set, delete or #"));
        }
    };
    edit.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_have_several_lines() {
        let text =
            "set interfaces interface a description \"one\nset system workers count 2\"\n# it's\n";
        let edits = text_edits(text).unwrap();
        let [configuration_edit::Edit::Set(set)] = edits.as_slice() else { panic!("{edits:?}") };
        assert_eq!(set.value.as_deref(), Some("one\nset system workers count 2"));
        let wrong = text_edits("set system workers count 2\n\nshow it").unwrap_err();
        assert!(matches!(&wrong, Failure::Words(text) if text.starts_with("line 3")), "{wrong:?}");
    }

    #[test]
    fn lines_are_edits_or_errors() {
        assert_eq!(line_edit("  # a comment"), Ok(vec![]));
        let set = line_edit("set system workers count 2").unwrap();
        assert!(matches!(set.as_slice(), [configuration_edit::Edit::Set(_)]));
        let delete = line_edit("delete system workers").unwrap();
        assert!(matches!(delete.as_slice(), [configuration_edit::Edit::Delete(_)]));
        assert!(line_edit("show it").unwrap_err().contains("begins with set"));
        assert!(line_edit("set \"a").unwrap_err().contains("not closed"));
    }
}
