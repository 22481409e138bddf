//! What is said to the datastores of a running router, and what comes back.

use stoa_api::v1;
use stoa_api::v1::operator_client::OperatorClient;
use stoa_api::v1::{configuration_edit, show_configuration_request};
use stoa_controller::datastore::parse;
use stoa_controller::error::ValidationError;
use tonic::Streaming;
use tonic::transport::Channel;
use yang5::data::DataTree;

use crate::commit::Commit;
use crate::line::split;
use crate::{show, words};

/// Why something was not done.
#[derive(Debug)]
pub enum Failure {
    /// The words are wrong.
    Words(String),
    /// The router refused, with a headline and its reasons.
    Refused(String, Vec<ValidationError>),
    /// The router does not answer, or has something against it.
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

/// How a configuration is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
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
    /// One that is there now.
    Store(v1::Store),
    /// One of the history, by its number.
    Number(u64),
}

/// Somebody who works on the configuration.
#[derive(Clone, Debug)]
pub struct Session {
    client: OperatorClient<Channel>,
    asking: v1::Asking,
}

impl Session {
    /// Over the operator's socket; `is_console`: somebody sits at the console.
    pub fn new(client: OperatorClient<Channel>, is_console: bool) -> Session {
        // Who became root by sudo is who did it.
        let login = std::env::var("SUDO_USER").unwrap_or_default();
        // CLIENT PORT SERVER PORT, as the SSH server says it.
        let ssh = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let came_to = ssh.split(' ').nth(2).unwrap_or_default().to_owned();
        Session { client, asking: v1::Asking { login, is_console, session: 0, came_to } }
    }

    fn asking(&self) -> Option<v1::Asking> {
        Some(self.asking.clone())
    }

    /// Takes the lock; it is held as long as what is returned.
    ///
    /// # Errors
    /// Who holds it.
    pub async fn lock(&mut self) -> Result<Streaming<v1::LockReply>, Failure> {
        let request = v1::LockRequest { asking: self.asking() };
        let mut held = self.client.lock(request).await?.into_inner();
        let reply = held.message().await?.unwrap_or_default();
        refused("not locked", reply.errors)?;
        self.asking.session = reply.session;
        Ok(held)
    }

    /// The lock is given back.
    pub fn unlock(&mut self, held: Streaming<v1::LockReply>) {
        drop(held);
        self.asking.session = 0;
    }

    async fn edit(&mut self, edits: Vec<configuration_edit::Edit>) -> Result<(), Failure> {
        let edits = edits.into_iter().map(|edit| v1::ConfigurationEdit { edit: Some(edit) });
        let request = v1::EditRequest { asking: self.asking(), edits: edits.collect() };
        let reply = self.client.edit(request).await?.into_inner();
        refused("not done; the candidate is as it was", reply.errors)
    }

    /// `set WORDS`: in the candidate.
    ///
    /// # Errors
    /// What is wrong with the words or the value.
    pub async fn set(&mut self, words: &[String]) -> Result<(), Failure> {
        let (path, value) = words::to_set(words)?;
        self.edit(vec![configuration_edit::Edit::Set(v1::SetEdit { path, value })]).await
    }

    /// `delete WORDS`: in the candidate.
    ///
    /// # Errors
    /// What is wrong with the words; that it is not there.
    pub async fn delete(&mut self, words: &[String]) -> Result<(), Failure> {
        let path = words::to_delete(words)?;
        self.edit(vec![configuration_edit::Edit::Delete(path)]).await
    }

    /// `load`: a text into the candidate, in place of all or merged into it. Lines of `set` and `delete`, or JSON.
    ///
    /// # Errors
    /// What is wrong with the text.
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
            for (number, line) in text.lines().enumerate() {
                let told =
                    |reason: String| Failure::Words(format!("line {}: {reason}", number + 1));
                edits.extend(line_edit(line).map_err(told)?);
            }
        }
        self.edit(edits).await
    }

    /// `commit` in all its forms; what was done, for people.
    ///
    /// # Errors
    /// Every reason why it was not done.
    pub async fn commit(&mut self, commit: Commit) -> Result<v1::CommitReply, Failure> {
        let reply = if commit.is_cancelled {
            let comment = commit.comment;
            let asking = self.asking();
            let request = v1::ConfirmRequest { asking, comment, is_cancelled: true };
            self.client.confirm(request).await?
        } else {
            let within = commit.confirm_within.unwrap_or_default().as_secs();
            let request = v1::CommitRequest {
                asking: self.asking(),
                comment: commit.comment,
                confirm_within_s: u32::try_from(within).unwrap_or(u32::MAX),
                is_overwriting: commit.is_overwriting,
                is_forced: commit.is_forced,
            };
            self.client.commit(request).await?
        };
        let mut reply = reply.into_inner();
        refused("refused; what runs is untouched", std::mem::take(&mut reply.errors))?;
        Ok(reply)
    }

    /// `discard`: the candidate is what runs.
    ///
    /// # Errors
    /// Who holds the lock.
    pub async fn discard(&mut self) -> Result<(), Failure> {
        let request = v1::DiscardRequest { asking: self.asking() };
        refused("not discarded", self.client.discard(request).await?.into_inner().errors)
    }

    /// `rollback N`: an earlier configuration becomes the candidate.
    ///
    /// # Errors
    /// That there is none so old; who holds the lock.
    pub async fn rollback(&mut self, back: u32) -> Result<(), Failure> {
        let request = v1::RollbackRequest { asking: self.asking(), back };
        refused("not rolled back", self.client.rollback(request).await?.into_inner().errors)
    }

    /// A configuration, or a part of it, as text.
    ///
    /// # Errors
    /// What is wrong with the words; that nothing is there.
    pub async fn show(
        &mut self,
        which: Which,
        words: &[String],
        form: Form,
    ) -> Result<String, Failure> {
        let path = words::to_delete(words)?;
        if matches!(form, Form::Braces | Form::Set) {
            let tree = self.tree(which).await?;
            return Ok(match form {
                Form::Set => show::lines(&tree, &path),
                _ => show::braces(&tree, &path),
            });
        }
        let format = match form {
            Form::Xml => v1::ConfigurationFormat::Xml,
            _ => v1::ConfigurationFormat::Json,
        };
        let path = if path == "/" { String::new() } else { path };
        self.text(which, format, path).await
    }

    async fn text(
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
        parse(&text).map_err(|refusal| Failure::Refused("not shown".into(), refusal.errors()))
    }

    /// What differs between two configurations.
    ///
    /// # Errors
    /// That one of them is not there.
    pub async fn compare(
        &mut self,
        request: v1::CompareRequest,
    ) -> Result<Vec<v1::ConfigurationChange>, Failure> {
        let reply = self.client.compare(request).await?.into_inner();
        refused("not compared", reply.errors)?;
        Ok(reply.changes)
    }

    /// The configurations that were in force, and who is at work.
    ///
    /// # Errors
    /// When the router does not answer.
    pub async fn history(&mut self) -> Result<v1::ShowHistoryReply, Failure> {
        Ok(self.client.show_history(v1::ShowHistoryRequest {}).await?.into_inner())
    }
}

fn refused(headline: &str, errors: Vec<ValidationError>) -> Result<(), Failure> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Refused(headline.to_owned(), errors)),
    }
}

/// What a line of a file of `set` and `delete` lines does.
fn line_edit(line: &str) -> Result<Option<configuration_edit::Edit>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let said = split(line).map_err(|quote| format!("a {quote} is not closed"))?;
    let edit = match said[0].as_str() {
        "set" => words::to_set(&said[1..])
            .map(|(path, value)| configuration_edit::Edit::Set(v1::SetEdit { path, value })),
        "delete" => words::to_delete(&said[1..]).map(configuration_edit::Edit::Delete),
        other => return Err(format!("\"{other}\": a line begins with set, delete or #")),
    };
    edit.map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_are_edits_or_told() {
        assert_eq!(line_edit("  # a word"), Ok(None));
        let set = line_edit("set system workers count 2").unwrap().unwrap();
        assert!(matches!(set, configuration_edit::Edit::Set(_)));
        let delete = line_edit("delete system workers").unwrap().unwrap();
        assert!(matches!(delete, configuration_edit::Edit::Delete(_)));
        assert!(line_edit("show it").unwrap_err().contains("begins with set"));
        assert!(line_edit("set \"a").unwrap_err().contains("not closed"));
    }
}
