//! The page of a host: its form, or its login.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};
use stoa_api::login::Key;
use stoa_controller::config::login::Login;
use stoa_controller::config::management::{Management, User};
use stoa_controller::login::sessions::{Full, New};
use stoa_controller::login::{Cause, Limits, Method, clock_s};

use super::forms::{self, Form};
use super::pages;
use super::state::Portal;
use crate::auth::account::Account;
use crate::auth::radius::packet::Station;
use crate::auth::{Denied, Peer, secret};
use crate::server::app_state::peer;

/// Attempts to log in per second, of all clients together.
const ATTEMPTS_PER_SECOND: u32 = 50;
/// Those of one interface. A host with many invented MAC addresses uses them up, and leaves others to other interfaces.
const ATTEMPTS_OF_INTERFACE: u32 = ATTEMPTS_PER_SECOND / 2;
const UNKNOWN: &str = "This device is not in a network where devices log in. Connect to it, then load this page again.";
const TOO_MANY_HOSTS: &str =
    "You have logged in on as many devices as you may. Log out on one of them, then try again.";
const NO_ROOM: &str = "Too many devices have logged in. Try again later.";

/// `GET /`: the form, or the login of the host.
pub(super) async fn show(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    page(&portal, &parts.headers, &peer(&parts), "")
}

/// The page of a host; `message` says why it has not logged in, or is empty.
fn page(portal: &Portal, headers: &HeaderMap, from: &Peer, message: &str) -> Response {
    let settings = portal.settings();
    let title = &settings.portal.title;
    let (mark, cookie) = forms::mark(&portal.key, headers);
    let mut response = match portal.host(from) {
        None => pages::words(title, UNKNOWN),
        Some(found) => match found.session {
            Some(session) => pages::status(title, &mark, clock_s(), &session),
            None => pages::log_in(title, &mark, message),
        },
    };
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The users and servers of the portal in the form of those of the management.
fn users(settings: &Login) -> Management {
    let user = settings.user.iter().map(|it| User {
        name: it.name.clone(),
        password_hash: Some(it.password_hash.clone()),
        group: Vec::new(),
        admin: false,
    });
    Management { user: user.collect(), radius: settings.radius.servers(), ..Management::default() }
}

/// When the login of an account ends.
fn limits(settings: &Login, account: &Account) -> Limits {
    let or =
        |granted: Option<u32>, configured: u32| granted.or((configured != 0).then_some(configured));
    let bytes = u64::from(settings.volume_limit) << 20;
    Limits {
        session_s: or(account.grants.session_s, settings.session_timeout),
        idle_s: or(account.grants.idle_s, settings.idle_timeout),
        bytes: (bytes != 0).then_some(bytes),
    }
}

/// What a user reads who was refused. It does not reveal whether the user exists.
fn words(denied: &Denied) -> String {
    match denied {
        Denied::Wait(_, wait) => {
            format!("Too many wrong passwords: wait {} s.", wait.as_secs() + 1)
        }
        Denied::Busy(_) => {
            "Too many attempts at the same time: wait a moment, then try again.".to_owned()
        }
        Denied::NoRadiusReply(_) => "The login server does not answer: try again.".to_owned(),
        Denied::Unknown | Denied::Wrong(..) | Denied::CrossSite(_) => {
            "Wrong user or password.".to_owned()
        }
    }
}

fn refused(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response
}

/// `POST /log-in`.
pub(super) async fn log_in(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let from = peer(&parts);
    let form = Form::read(body).await.unwrap_or_default();
    if !forms::is_marked(&portal.key, &parts.headers, &form) {
        // The page of the form has a new cookie.
        let message = "The form was too old: try again.";
        let page = page(&portal, &parts.headers, &from, message);
        return refused(StatusCode::FORBIDDEN, page);
    }
    let Some(found) = portal.host(&from) else {
        let page = page(&portal, &parts.headers, &from, "");
        return refused(StatusCode::FORBIDDEN, page);
    };
    // What one host uses up is its own: the others still log in.
    let (now, everybody) = (Instant::now(), Ipv4Addr::UNSPECIFIED.into());
    let interface = found.host.interface.clone();
    let is_free = portal.of_hosts.take_attempt(from.source(), now)
        && portal.of_interfaces.take_attempt(interface, ATTEMPTS_OF_INTERFACE, now)
        && portal.attempts.take(everybody, ATTEMPTS_PER_SECOND, now);
    if !is_free {
        let message = words(&Denied::Busy(String::new()));
        let page = page(&portal, &parts.headers, &from, &message);
        return refused(StatusCode::SERVICE_UNAVAILABLE, page);
    }
    let settings = portal.settings();
    let station = Station { interface: found.host.interface.clone(), mac: found.host.mac };
    let (user, password) = (form.value("user").trim(), form.value("password"));
    let origin = (from.source(), Some(station));
    match portal.login.log_in(&users(&settings), origin, user, password).await {
        Ok(account) => match begin(&portal, &settings, found.host, &from, account) {
            Ok(()) => pages::home(),
            Err(full) => {
                let (status, words) = match full {
                    Full::Logins => (StatusCode::SERVICE_UNAVAILABLE, NO_ROOM),
                    Full::OfUser => (StatusCode::FORBIDDEN, TOO_MANY_HOSTS),
                };
                refused(status, pages::words(&settings.portal.title, words))
            }
        },
        Err(denied) => {
            let page = page(&portal, &parts.headers, &from, &words(&denied));
            refused(denied.status(), page)
        }
    }
}

/// Logs a host in, if there is room.
fn begin(
    portal: &Portal,
    settings: &Login,
    host: Key,
    from: &Peer,
    account: Account,
) -> Result<(), Full> {
    let is_local = settings.user.iter().any(|it| it.name == account.user.name);
    let new = New {
        host,
        id: secret::number(),
        user: account.user.name.clone(),
        method: if is_local { Method::Local } else { Method::Radius },
        limits: limits(settings, &account),
        hosts_most: Some(settings.hosts_per_user).filter(|most| *most != 0),
        address: from.address.to_canonical().to_string(),
        class: account.grants.class,
        interim_s: account.grants.interim_s,
    };
    portal.datastore.connection().logins().begin(new)
}

/// `POST /log-out`.
pub(super) async fn log_out(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = Form::read(body).await.unwrap_or_default();
    if forms::is_marked(&portal.key, &parts.headers, &form)
        && let Some(found) = portal.host(&peer(&parts))
    {
        let logins = portal.datastore.connection().logins();
        logins.end_host(&found.host, Cause::User);
    }
    pages::home()
}
