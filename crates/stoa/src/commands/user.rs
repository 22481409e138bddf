//! `stoa user`: creates the first user of the management server, lists users and hashes passwords.

use std::net::IpAddr;
use std::process::ExitCode;

use serde_json::{Value, json};
use stoa_api::v1;
use stoa_console::commit::Commit;
use stoa_console::session::{Format, Session, Which};
use stoa_northbound::auth::password;

use crate::failure::{Failure, Outcome, to_stderr};
use crate::operator::{SocketArgument, block_on};
use crate::{ask, show};

/// Manage users of the management server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa user setup                       Ask for name and password, and create an administrator
  stoa user setup --name root < FILE    Read the password from FILE instead
  stoa user list                        List the users
  stoa user hash                        Ask for a password and print its hash
  pass router | stoa user hash          Read the password from another program

The configuration stores the hash. To add another user:
  stoa set management user ann password-hash \"$(stoa user hash)\" && stoa commit")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create the first user, an administrator
    Setup(Setup),
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

/// Creates the first user over the operator's socket. No token is needed: whoever can use the socket can configure
/// everything.
fn set_up(setup: &Setup) -> Result<(), Failure> {
    // Refuse before the questions, not after them.
    let configuration = block_on(async {
        let mut session = setup.socket.session().await?;
        let configuration = running(&mut session).await?;
        check_no_user(&configuration)?;
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

fn check_no_user(configuration: &Value) -> Result<(), Failure> {
    match show::users::is_any(configuration) {
        false => Ok(()),
        true => Err(Failure::Message(
            "there are users already (`stoa user list`); to add one, run `stoa set management user NAME \
             password-hash HASH` and `stoa commit`, with HASH from `stoa user hash`"
                .into(),
        )),
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

/// Creates the user in one transaction, under the lock. Returns the warnings of the commit.
async fn create(session: &mut Session, name: &str, hash: &str) -> Result<Vec<String>, Failure> {
    let lock = session.lock().await?;
    check_no_user(&running(session).await?)?;
    check_no_pending_change(&session.history().await?)?;
    let user = json!({ "name": name, "password-hash": hash, "admin": true });
    let text = json!({ "stoa-management:management": { "user": [user] } }).to_string();
    session.load(&text, true).await?;
    let commit = Commit { comment: "first user".into(), ..Commit::default() };
    let reply = match session.commit(commit).await {
        Ok(reply) => reply,
        Err(failure) => {
            // Otherwise the next commit would contain the refused change.
            session.discard().await?;
            return Err(failure.into());
        }
    };
    session.unlock(lock);
    Ok(reply.warnings)
}

/// The address of the management server.
struct ManagementServer {
    url: String,
    certificate: String,
    is_enabled: bool,
}

impl ManagementServer {
    fn new(configuration: &Value, state: &str) -> ManagementServer {
        let https = &configuration["stoa-management:management"]["https"];
        let port = https["port"].as_u64().unwrap_or(8443);
        let own = format!("{state}/https/certificate.pem");
        let certificate = https["certificate"].as_str().map_or(own, str::to_owned);
        let url = format!("https://{}:{port}", host(https));
        ManagementServer { url, certificate, is_enabled: https["enabled"] != false }
    }

    fn next_steps(&self, name: &str) -> String {
        let ManagementServer { url, certificate, is_enabled } = self;
        if !is_enabled {
            return format!(
                "Created the administrator {name}. The server is disabled: run `stoa set management https \
                 enabled true` and `stoa commit`."
            );
        }
        format!(
            "Created the administrator {name}.\n\n\
             Test the login:    curl --cacert {certificate} -u {name} {url}/whoami\n\
             Remote access:     stoa set management https address ADDRESS && stoa commit\n\
             Another user:      stoa set management user ann password-hash \"$(stoa user hash)\" && \
             stoa commit"
        )
    }
}

/// The host name for requests from this machine: `localhost`, unless the server listens only on other addresses.
fn host(https: &Value) -> String {
    let addresses = https["address"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let addresses: Vec<IpAddr> = addresses.filter_map(|it| it.parse().ok()).collect();
    let is_local = |it: &IpAddr| it.is_loopback() || it.is_unspecified();
    match addresses.first() {
        Some(IpAddr::V4(first)) if !addresses.iter().any(is_local) => first.to_string(),
        Some(IpAddr::V6(first)) if !addresses.iter().any(is_local) => format!("[{first}]"),
        _ => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_has_an_address_that_the_server_listens_on() {
        let host = |addresses: &[&str]| host(&json!({ "address": addresses }));
        assert_eq!(super::host(&json!(null)), "localhost");
        assert_eq!(host(&["192.0.2.1", "::1"]), "localhost");
        assert_eq!(host(&["0.0.0.0"]), "localhost");
        assert_eq!(host(&["192.0.2.1", "2001:db8::1"]), "192.0.2.1");
        assert_eq!(host(&["2001:db8::1"]), "[2001:db8::1]");
    }
}
