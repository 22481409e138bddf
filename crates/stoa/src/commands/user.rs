//! `stoa user`: creates users of the management server, lists users and hashes passwords.

mod server;

use std::process::ExitCode;

use serde_json::{Value, json};
use stoa_api::v1;
use stoa_console::commit::Commit;
use stoa_console::session::{Format, Session, Which};
use stoa_northbound::auth::password;

use crate::failure::{Failure, Outcome, to_stderr};
use crate::operator::{SocketArgument, block_on};
use crate::{ask, show};
use server::ManagementServer;

/// Manage users of the management server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa user setup                       Ask for name and password, and create an administrator
  stoa user setup --name root < FILE    Read the password from FILE instead
  stoa user add ann --group operators   Ask for a password and add a user
  stoa user list                        List the users
  stoa user hash                        Ask for a password and print its hash
  pass router | stoa user hash          Read the password from another program

The configuration stores the hash, never the password.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create the first administrator
    Setup(Setup),
    /// Ask for a password and add a user, as one commit
    Add(Add),
    /// List the users of the running configuration
    List(List),
    /// Print the argon2 hash of a password
    Hash,
}

#[derive(Debug, clap::Args)]
struct Setup {
    /// Name of the user; without it, the command asks for it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

#[derive(Debug, clap::Args)]
struct Add {
    /// Login name
    #[arg(value_name = "NAME")]
    name: String,
    /// Make the user an administrator, whom no rule restricts
    #[arg(long)]
    admin: bool,
    /// Group of ietf-netconf-acm, whose rules apply to the user; may be repeated
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    #[command(flatten)]
    socket: SocketArgument,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Runs the action.
pub fn execute(arguments: Arguments) -> Outcome {
    match arguments.action {
        Action::Setup(setup) => set_up(&setup)?,
        Action::Add(add) => {
            let Add { name, admin, group, socket } = add;
            self::add(
                &socket,
                NewUser { name, is_admin: admin, groups: group, hash: String::new() },
            )?;
        }
        Action::List(list) => {
            let configuration =
                block_on(async { running(&mut list.socket.session().await?).await })?;
            if list.json {
                show::print(&show::users::json(&configuration).to_string())?;
            } else {
                show::users::text(&configuration, &mut std::io::stdout().lock())?;
            }
        }
        Action::Hash => {
            let hash = password::hash(&ask::password()?).map_err(Failure::Message)?;
            show::print(&hash)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The running configuration.
async fn running(session: &mut Session) -> Result<Value, Failure> {
    let text = session.show(Which::Store(v1::Store::Running), &[], Format::Json).await?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::context("the running configuration is not JSON", error))
}

/// Creates the first administrator over the operator's socket. No token is needed: whoever can use the socket can
/// configure everything.
fn set_up(setup: &Setup) -> Result<(), Failure> {
    // Refuse before the questions, not after them.
    let configuration = block_on(async {
        let mut session = setup.socket.session().await?;
        let configuration = running(&mut session).await?;
        check_no_administrator(&configuration)?;
        check_no_pending_change(&session.history().await?)?;
        Ok(configuration)
    })?;
    let name = match &setup.name {
        Some(name) => name.clone(),
        None if ask::is_interactive() => ask::line("Name of the administrator", "admin")?,
        None => {
            let text = "standard input is not a terminal: run `stoa user setup --name NAME`, and write the password \
                        as one line to standard input";
            return Err(Failure::Usage(text.into()));
        }
    };
    check_new(&configuration, &name)?;
    let hash = password::hash(&ask::password()?).map_err(Failure::Message)?;
    let (warnings, status) = block_on(async {
        let warnings = create(&mut setup.socket.session().await?, &name, &hash).await?;
        let status = setup.socket.connect().await?.status(v1::StatusRequest {}).await?;
        Ok((warnings, status.into_inner()))
    })?;
    for warning in warnings {
        to_stderr(format_args!("Warning: {warning}"));
    }
    let server = ManagementServer::new(&configuration, &status.state);
    if setup.json {
        let certificate = &server.certificate;
        show::print(
            &json!({ "user": name, "url": server.url, "certificate": certificate }).to_string(),
        )?;
    } else {
        show::print(&server.next_steps(&name))?;
    }
    Ok(())
}

/// Refuses if there is an administrator. Who may use the socket may do all, also beside users whose rules permit less.
fn check_no_administrator(configuration: &Value) -> Result<(), Failure> {
    match show::users::has_administrator(configuration) {
        true => Err(Failure::Message(
            "there is an administrator already (`stoa user list`); to add a user, run `stoa user add NAME`, with \
             `--admin` for another administrator"
                .into(),
        )),
        false => Ok(()),
    }
}

/// Refuses if committing the user would also commit or confirm changes of others.
fn check_no_pending_change(history: &v1::ShowHistoryReply) -> Result<(), Failure> {
    let text = match (history.is_edited, history.confirm_by_unix_ms) {
        (true, _) => {
            "the candidate has uncommitted changes (`stoa compare`): run `stoa commit` or `stoa discard` first"
        }
        (_, 1..) => {
            "a commit waits for its confirmation: run `stoa commit` or `stoa commit cancel` first"
        }
        _ => return Ok(()),
    };
    Err(Failure::Message(text.into()))
}

/// Adds a user to those that exist.
fn add(socket: &SocketArgument, user: NewUser) -> Result<(), Failure> {
    // Refuse before the questions, not after them.
    block_on(async {
        let mut session = socket.session().await?;
        check_new(&running(&mut session).await?, &user.name)?;
        check_no_pending_change(&session.history().await?)
    })?;
    let user = user.asked()?;
    let warnings = block_on(async {
        let mut session = socket.session().await?;
        let lock = session.lock().await?;
        check_new(&running(&mut session).await?, &user.name)?;
        let warnings = commit(&mut session, &user, "another user").await?;
        session.unlock(lock);
        Ok(warnings)
    })?;
    for warning in warnings {
        to_stderr(format_args!("Warning: {warning}"));
    }
    show::print(&format!("Added {}.", user.title()))?;
    Ok(())
}

fn check_new(configuration: &Value, name: &str) -> Result<(), Failure> {
    let users = configuration["stoa-management:management"]["user"].as_array();
    match users.into_iter().flatten().any(|user| user["name"] == name) {
        false => Ok(()),
        true => Err(Failure::Message(format!(
            "there is a user {name:?} already: `user list` shows all; `delete management user {name}` removes it"
        ))),
    }
}

/// Creates the first administrator in one transaction, under the lock. Returns the warnings of the commit.
async fn create(session: &mut Session, name: &str, hash: &str) -> Result<Vec<String>, Failure> {
    let lock = session.lock().await?;
    let configuration = running(session).await?;
    check_no_administrator(&configuration)?;
    check_new(&configuration, name)?;
    let (name, hash) = (name.to_owned(), hash.to_owned());
    let user = NewUser { name, is_admin: true, groups: Vec::new(), hash };
    let warnings = commit(session, &user, "first administrator").await?;
    session.unlock(lock);
    Ok(warnings)
}

/// Commits a user and nothing else. The caller holds the lock.
async fn commit(
    session: &mut Session,
    user: &NewUser,
    comment: &str,
) -> Result<Vec<String>, Failure> {
    check_no_pending_change(&session.history().await?)?;
    session.load(&user.body(), true).await?;
    let commit = Commit { comment: comment.into(), ..Commit::default() };
    match session.commit(commit).await {
        Ok(reply) => Ok(reply.warnings),
        Err(failure) => {
            // Otherwise the next commit would contain the refused change.
            session.discard().await?;
            Err(failure.into())
        }
    }
}

/// A user to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    name: String,
    is_admin: bool,
    groups: Vec<String>,
    hash: String,
}

impl NewUser {
    /// Parses the arguments of the console: `add NAME [admin] [group GROUP]...`.
    ///
    /// # Errors
    /// When they are others.
    pub fn of(words: &[String]) -> Result<NewUser, Failure> {
        let usage = || {
            Failure::Message(
                "use `user add NAME [admin] [group GROUP]...`; it asks for the password".into(),
            )
        };
        let (is_admin, hash) = (false, String::new());
        let mut user = match words {
            [add, name, ..] if add == "add" => {
                NewUser { name: name.clone(), is_admin, groups: Vec::new(), hash }
            }
            _ => return Err(usage()),
        };
        let mut rest = words[2..].iter();
        while let Some(word) = rest.next() {
            match word.trim_start_matches("--") {
                "admin" => user.is_admin = true,
                "group" => user.groups.push(rest.next().ok_or_else(usage)?.clone()),
                _ => return Err(usage()),
            }
        }
        Ok(user)
    }

    /// The user with the password that a person types without echo, or that is the next line of standard input.
    ///
    /// # Errors
    /// When there is no password, or the two that were typed differ.
    pub fn asked(mut self) -> Result<NewUser, Failure> {
        self.hash = password::hash(&ask::password()?).map_err(Failure::Message)?;
        Ok(self)
    }

    /// The configuration of the user.
    pub fn body(&self) -> String {
        let NewUser { name, is_admin, groups, hash } = self;
        let mut user = json!({ "name": name, "password-hash": hash });
        if *is_admin {
            user["admin"] = true.into();
        }
        if !groups.is_empty() {
            user["group"] = json!(groups);
        }
        json!({ "stoa-management:management": { "user": [user] } }).to_string()
    }

    fn title(&self) -> String {
        let what = if self.is_admin { "the administrator" } else { "the user" };
        let groups = match self.groups.is_empty() {
            true => String::new(),
            false => format!(" of {}", self.groups.join(", ")),
        };
        format!("{what} {}{groups}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_administrator_may_come_after_other_users() {
        let of = |users: Value| json!({ "stoa-management:management": { "user": users } });
        let ann = json!({ "name": "ann", "group": ["noc"] });
        let root = json!({ "name": "root", "admin": true });
        let demoted = json!({ "name": "bob", "admin": false });
        for users in [json!([]), json!([ann]), json!([ann, demoted])] {
            assert!(check_no_administrator(&of(users)).is_ok());
        }
        match check_no_administrator(&of(json!([ann, root]))) {
            Err(Failure::Message(text)) => {
                assert!(text.starts_with("there is an administrator already"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!(check_new(&of(json!([ann])), "ann").is_err(), "it would get another password");
    }

    #[test]
    fn the_arguments_of_a_user_become_its_configuration() {
        let of = |line: &str| {
            NewUser::of(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let user = of("add ann group noc group ops").unwrap_or_else(|_| panic!("it is right"));
        let body: Value = serde_json::from_str(&user.body()).unwrap();
        let ann = &body["stoa-management:management"]["user"][0];
        assert_eq!((&ann["group"], &ann["admin"]), (&json!(["noc", "ops"]), &Value::Null));
        assert_eq!(user.title(), "the user ann of noc, ops");
        assert!(of("add bob admin").is_ok_and(|bob| bob.title() == "the administrator bob"));
        for wrong in ["", "add", "ann", "add ann group", "add ann secret"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
