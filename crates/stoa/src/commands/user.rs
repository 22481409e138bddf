//! `stoa user`: what users of the management server need of the command line.

use std::net::IpAddr;
use std::process::ExitCode;

use serde_json::{Value, json};
use stoa_api::v1;
use stoa_console::commit::Commit;
use stoa_console::session::{Form, Session, Which};
use stoa_northbound::auth::password;

use crate::failure::{Failure, Outcome};
use crate::operator::{SocketArgument, block_on};
use crate::{ask, show};

/// Users of the management server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa user setup                       Makes the first user, an administrator: asks for name and password
  stoa user setup --name root < FILE    The same for programs: FILE has the password
  stoa user list                        Who there is
  stoa user hash                        Asks for a password, and shows its hash
  pass router | stoa user hash          Reads it from another program

The hash goes into the configuration: one more user is made by
  stoa set management user ann password-hash \"$(stoa user hash)\" && stoa commit")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make the first user, who may do all
    Setup(Setup),
    /// Show the users of the configuration in force
    List(List),
    /// Hash a password by argon2
    Hash,
}

#[derive(Debug, clap::Args)]
struct Setup {
    /// The user's name; asked for when it is left out
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Does what is asked.
pub fn execute(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Setup(setup) => set_up(&setup)?,
        What::List(list) => {
            let configuration =
                block_on(async { running(&mut list.socket.session().await?).await })?;
            if list.json {
                show::print(&show::users::json(&configuration).to_string())?;
            } else {
                show::users::text(&configuration, &mut std::io::stdout().lock())?;
            }
        }
        What::Hash => {
            let hash = password::hash(&ask::password()?).map_err(Failure::Words)?;
            show::print(&hash)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The configuration in force.
async fn running(session: &mut Session) -> Result<Value, Failure> {
    let text = session.show(Which::Store(v1::Store::Running), &[], Form::Json).await?;
    serde_json::from_str(&text).map_err(|error| Failure::because("the configuration", error))
}

/// Makes the first user over the operator's socket: who may use that may configure all, so that no token is asked.
fn set_up(setup: &Setup) -> Result<(), Failure> {
    // Said before the questions, not after them.
    let configuration = block_on(async {
        let mut session = setup.socket.session().await?;
        let configuration = running(&mut session).await?;
        is_first(&configuration)?;
        is_settled(&session.history().await?)?;
        Ok(configuration)
    })?;
    let name = match &setup.name {
        Some(name) => name.clone(),
        None if ask::is_there() => ask::line("Name of the administrator", "admin")?,
        None => {
            let words = "without a terminal the name is an option: `stoa user setup --name NAME`, \
                         with the password as a line of standard input";
            return Err(Failure::Usage(words.into()));
        }
    };
    let hash = password::hash(&ask::password()?).map_err(Failure::Words)?;
    let status = block_on(async {
        make(&mut setup.socket.session().await?, &name, &hash).await?;
        let status = setup.socket.connect().await?.status(v1::StatusRequest {}).await?;
        Ok(status.into_inner())
    })?;
    let place = Place::of(&configuration, &status.state);
    if setup.json {
        let certificate = &place.certificate;
        show::print(
            &json!({ "user": name, "url": place.url, "certificate": certificate }).to_string(),
        )?;
    } else {
        show::print(&place.next_steps(&name))?;
    }
    Ok(())
}

fn is_first(configuration: &Value) -> Result<(), Failure> {
    match show::users::is_any(configuration) {
        false => Ok(()),
        true => Err(Failure::Words(
            "there are users already (`stoa user list`); one more is made by `stoa set management \
             user NAME password-hash HASH` and `stoa commit`, with HASH from `stoa user hash`"
                .into(),
        )),
    }
}

/// What others have in the candidate shall not come into force by this.
fn is_settled(history: &v1::ShowHistoryReply) -> Result<(), Failure> {
    let words = match (history.is_edited, history.confirm_by_unix_ms) {
        (true, _) => {
            "the candidate has changes that are not committed (`stoa compare`): `stoa commit` or \
             `stoa discard` first"
        }
        (_, 1..) => "a commit waits to be confirmed: `stoa commit` or `stoa commit cancel` first",
        _ => return Ok(()),
    };
    Err(Failure::Words(words.into()))
}

/// One transaction, with all others kept out.
async fn make(session: &mut Session, name: &str, hash: &str) -> Result<(), Failure> {
    let held = session.lock().await?;
    is_first(&running(session).await?)?;
    is_settled(&session.history().await?)?;
    let user = json!({ "name": name, "password-hash": hash, "admin": true });
    let text = json!({ "stoa-management:management": { "user": [user] } }).to_string();
    session.load(&text, true).await?;
    let commit = Commit { comment: "first user".into(), ..Commit::default() };
    if let Err(failure) = session.commit(commit).await {
        // What was refused is not left for the next commit.
        session.discard().await?;
        return Err(failure.into());
    }
    session.unlock(held);
    Ok(())
}

/// Where the management server is found.
struct Place {
    url: String,
    certificate: String,
    is_on: bool,
}

impl Place {
    fn of(configuration: &Value, state: &str) -> Place {
        let https = &configuration["stoa-management:management"]["https"];
        let port = https["port"].as_u64().unwrap_or(8443);
        let own = format!("{state}/https/certificate.pem");
        let certificate = https["certificate"].as_str().map_or(own, str::to_owned);
        let url = format!("https://{}:{port}", host(https));
        Place { url, certificate, is_on: https["enabled"] != false }
    }

    fn next_steps(&self, name: &str) -> String {
        let Place { url, certificate, is_on } = self;
        if !is_on {
            return format!(
                "{name} is made, and may do all. The server is switched off: `stoa set management \
                 https enabled true`."
            );
        }
        format!(
            "{name} is made, and may do all.\n\n\
             Is it so?          curl --cacert {certificate} -u {name} {url}/whoami\n\
             From elsewhere:    stoa set management https address ADDRESS && stoa commit\n\
             One more user:     stoa set management user ann password-hash \"$(stoa user hash)\" && \
             stoa commit"
        )
    }
}

/// By which name the server is asked from here: the loopback's unless it listens elsewhere only.
fn host(https: &Value) -> String {
    let addresses = https["address"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let addresses: Vec<IpAddr> = addresses.filter_map(|it| it.parse().ok()).collect();
    let is_here = |it: &IpAddr| it.is_loopback() || it.is_unspecified();
    match addresses.first() {
        Some(IpAddr::V4(first)) if !addresses.iter().any(is_here) => first.to_string(),
        Some(IpAddr::V6(first)) if !addresses.iter().any(is_here) => format!("[{first}]"),
        _ => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_asked_where_it_listens() {
        let host = |addresses: &[&str]| host(&json!({ "address": addresses }));
        assert_eq!(super::host(&json!(null)), "localhost");
        assert_eq!(host(&["192.0.2.1", "::1"]), "localhost");
        assert_eq!(host(&["0.0.0.0"]), "localhost");
        assert_eq!(host(&["192.0.2.1", "2001:db8::1"]), "192.0.2.1");
        assert_eq!(host(&["2001:db8::1"]), "[2001:db8::1]");
    }
}
