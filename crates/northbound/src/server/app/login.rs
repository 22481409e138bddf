//! Endpoints for the first user, sessions of the web page and tokens. They use JSON.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{StatusCode, header::COOKIE};
use serde::Deserialize;
use serde_json::{Value, json};
use stoa_controller::datastore::{Author, Client, Edit, Store};

use crate::audit::{AuditRecord, timestamp};
use crate::auth::tokens::{LIFE_MAX, Token};
use crate::auth::{Identity, Proof, password, sessions};
use crate::server::app_state::{
    AppState, WORDS_BYTES, answer, answer_denied, authenticate_connection, failure, peer,
};

/// Default lifetime of a token: 30 days.
const TOKEN_LIFE_S: u64 = 30 * 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogIn {
    user: String,
    password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct NewToken {
    name: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    life_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetUp {
    token: String,
    user: String,
    password: String,
}

/// Reads the body of a request as JSON.
async fn read<T: for<'de> Deserialize<'de>>(
    app: &AppState,
    request: Request,
) -> Result<(Parts, T), Response> {
    let (parts, body) = request.into_parts();
    // A form of another site cannot send this type.
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        let words = "the body must be JSON: send Content-Type: application/json";
        return Err(failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let bytes = app.body(body, WORDS_BYTES).await;
    let bytes = bytes.map_err(|unread| failure(unread.status(), unread.words()))?;
    let value = serde_json::from_slice(&bytes);
    let value = value.map_err(|error| {
        failure(StatusCode::BAD_REQUEST, format!("the body is invalid: {error}"))
    })?;
    Ok((parts, value))
}

async fn known(app: &AppState, parts: &Parts) -> Result<Identity, Response> {
    app.identify(parts).await.map_err(|reason| answer_denied(parts, &reason))
}

impl AppState {
    fn audit_login(&self, parts: &Parts, user: &str, what: &str, result: &str) {
        let from = Some(peer(parts).address);
        self.audit.write(&AuditRecord { user, from, client: "log-in", what, result });
    }
}

/// `POST /login`: begins a session.
pub async fn log_in(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, input) = match read::<LogIn>(&app, request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let management = app.management();
    match app.authenticator.log_in(&management, &peer(&parts), &input.user, &input.password).await {
        Ok(account) => {
            authenticate_connection(&parts);
            let limit = usize::from(management.limits.sessions);
            let cookie = app.authenticator.sessions.begin(&account, limit, Instant::now());
            let user = &account.user;
            app.audit_login(&parts, &user.name, "log in", "done");
            let mut response = answer(
                StatusCode::OK,
                &json!({ "user": user.name, "admin": user.admin, "groups": user.group }),
            );
            let cookie = HeaderValue::try_from(sessions::set_cookie(&cookie));
            if let Ok(cookie) = cookie {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(reason) => {
            app.audit_failure(&peer(&parts), &reason, "log in");
            answer_denied(&parts, &reason)
        }
    }
}

/// `POST /logout`: ends the session of the cookie.
pub async fn log_out(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let cookies = parts.headers.get_all(COOKIE).into_iter().filter_map(|it| it.to_str().ok());
    if let Some(cookie) = cookies.into_iter().find_map(sessions::cookie) {
        if let Err(response) = known(&app, &parts).await {
            return response;
        }
        app.authenticator.sessions.end(cookie);
    }
    let mut response = answer(StatusCode::OK, &json!({}));
    if let Ok(cookie) = HeaderValue::try_from(sessions::set_cookie("")) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// `GET /whoami`: the identity of the client, and the name of the router.
pub async fn who_am_i(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match known(&app, &parts).await {
        Ok(identity) => {
            let proof = format!("{:?}", identity.proof).to_lowercase();
            let Identity { name, groups, is_admin, .. } = identity;
            let value = json!({
                "user": name, "admin": is_admin, "groups": groups, "proof": proof,
                "router": crate::machine::name(),
            });
            answer(StatusCode::OK, &value)
        }
        Err(response) => response,
    }
}

/// `POST /setup`: creates the first user, an administrator. The setup token is in a file of the state folder.
pub async fn set_up(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, input) = match read::<SetUp>(&app, request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    if !app.management().user.is_empty() {
        // It does not say whether there is an administrator: anybody can ask.
        return failure(
            StatusCode::CONFLICT,
            "users exist, and the setup token is not valid any more: log in as one of them; if none is an \
             administrator, create one with `stoa user setup` on the router",
        );
    }
    if let Err(reason) = app.authenticator.check_setup(&peer(&parts), &input.token) {
        app.audit_failure(&peer(&parts), &reason, "setup");
        return answer_denied(&parts, &reason);
    }
    let password = input.password;
    let hash = tokio::task::spawn_blocking(move || password::hash(&password)).await;
    let hash = match hash {
        Ok(Ok(hash)) => hash,
        Ok(Err(words)) => return failure(StatusCode::BAD_REQUEST, words),
        Err(_) => {
            return failure(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot hash the password: see the log of the router",
            );
        }
    };
    let user = json!({ "name": input.user, "password-hash": hash, "admin": true });
    let body = json!({ "stoa-management:management": { "user": [user] } }).to_string();
    let author = Author::new(input.user.clone(), Client::Web);
    // A disconnect interrupts neither the change nor its audit record.
    let made = tokio::spawn(async move {
        let edits = vec![Edit::Merge { body }];
        let made = app.datastore.edit(&author, Store::Running, edits, None).await;
        let user = &author.name;
        match made {
            Ok(_) => {
                app.follow(&app.management());
                app.audit_login(&parts, user, "setup", "done");
                answer(StatusCode::CREATED, &json!({ "user": user }))
            }
            Err(refusal) => {
                let errors = refusal.errors();
                let words =
                    errors.iter().map(|it| format!("{}: {}. {}", it.path, it.cause, it.fix));
                let words = words.collect::<Vec<_>>().join(" ");
                app.audit_login(&parts, user, "setup", &words);
                failure(StatusCode::BAD_REQUEST, words)
            }
        }
    });
    let broken = |_| {
        failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            "cannot create the user: see the log of the router",
        )
    };
    made.await.unwrap_or_else(broken)
}

fn shown(token: &Token) -> Value {
    let moment = |unix_s| timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s));
    json!({
        "id": token.id,
        "name": token.name,
        "user": token.user,
        "created": moment(token.created_unix_s),
        "expires": moment(token.expires_unix_s),
    })
}

/// `GET /tokens`: the tokens of the user, or all for an administrator. The token texts are not stored.
pub async fn list_tokens(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match known(&app, &parts).await {
        Ok(identity) => {
            let of = (!identity.is_admin).then_some(identity.name.as_str());
            let list: Vec<Value> = app.authenticator.tokens.list(of).iter().map(shown).collect();
            answer(StatusCode::OK, &json!({ "tokens": list }))
        }
        Err(response) => response,
    }
}

/// `POST /tokens`: creates a token, whose text is shown only this once.
pub async fn make_token(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let identity = match known(&app, &parts).await {
        Ok(identity) => identity,
        Err(response) => return response,
    };
    let request = Request::from_parts(parts, body);
    let (parts, input) = match read::<NewToken>(&app, request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let user = input.user.unwrap_or_else(|| identity.name.clone());
    if user != identity.name && !identity.is_admin {
        return failure(
            StatusCode::FORBIDDEN,
            "only administrators can create tokens for other users",
        );
    }
    let management = app.management();
    let Some(owner) = management.user.iter().find(|one| one.name == user) else {
        let words = format!(
            "user {user:?} is not in the configuration: only configured users can have tokens"
        );
        return failure(StatusCode::BAD_REQUEST, words);
    };
    if input.name.is_empty() || input.name.len() > 64 {
        return failure(StatusCode::BAD_REQUEST, "name must have 1 to 64 bytes");
    }
    let life = Duration::from_secs(input.life_s.unwrap_or(TOKEN_LIFE_S));
    if life.is_zero() || life > LIFE_MAX {
        let words = format!("life-s must be 1 to {} seconds", LIFE_MAX.as_secs());
        return failure(StatusCode::BAD_REQUEST, words);
    }
    let by = management.user.iter().find(|one| one.name == identity.name);
    // A token cannot create one that outlives it.
    let life = match identity.proof {
        Proof::Token => {
            let (now, by) = (SystemTime::now(), by.unwrap_or(owner));
            let until = app.authenticator.tokens.expires(&identity.digest, by, now);
            let until = Duration::from_secs(until.unwrap_or_default());
            let left = SystemTime::UNIX_EPOCH + until;
            life.min(left.duration_since(now).unwrap_or_default())
        }
        _ => life,
    };
    if !app.token_rate.take(identity.name.clone(), Instant::now()) {
        let words = "too many new tokens: create at most one per second, 20 in a row";
        return failure(StatusCode::TOO_MANY_REQUESTS, words);
    }
    let made = app.authenticator.tokens.make(owner, &input.name, life, SystemTime::now()).await;
    match made {
        Ok((token, text)) => {
            let what = format!("create token {} for {user}", token.id);
            app.audit_login(&parts, &identity.name, &what, "done");
            let mut value = shown(&token);
            value["token"] = text.into();
            answer(StatusCode::CREATED, &value)
        }
        Err(error) => failure(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
    }
}

/// `DELETE /tokens/ID`: revokes a token.
pub async fn remove_token(
    State(app): State<Arc<AppState>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let identity = match known(&app, &parts).await {
        Ok(identity) => identity,
        Err(response) => return response,
    };
    let of = (!identity.is_admin).then_some(identity.name.as_str());
    let removed = match id.parse() {
        Ok(id) => app.authenticator.tokens.remove(id, of).await,
        Err(_) => Ok(false),
    };
    match removed {
        Ok(true) => {
            app.audit_login(&parts, &identity.name, &format!("remove token {id}"), "done");
            answer(StatusCode::OK, &json!({}))
        }
        Ok(false) => failure(StatusCode::NOT_FOUND, "no such token: list yours with GET /tokens"),
        Err(error) => {
            failure(StatusCode::INSUFFICIENT_STORAGE, format!("cannot store the tokens: {error}"))
        }
    }
}
