//! Operations (RFC 8040, section 4.4.2).

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use stoa_api::v1::ValidationError;
use stoa_controller::datastore::{Commit, Committed, Datastore, Earlier, Refusal, Store, visit};
use yang5::data::{Data, DataFormat, DataOperation, DataParserFlags, DataPrinterFlags, DataTree};

use super::body;
use super::call::{Call, not_allowed, only_read, options};
use super::fault::{Fault, Faults, NAMESPACE};
use super::logins;
use super::media::Media;
use super::operation::{Input, MODULE, OPERATIONS, allow_confirm};
use super::permitted;
use super::read_only;
use super::recent;
use super::refusals;
use super::searches;
use super::warnings;
use crate::audit::timestamp;
use crate::nacm::Rights;

/// Answers a request for an operation, or for the list of operations.
pub async fn serve(call: Call, below: &str, body: Body) -> Result<Response, Faults> {
    let name = below.replace("%3A", ":").replace("%3a", ":");
    if name.is_empty() {
        return only_read(&call, list(call.media));
    }
    let known = all().find(|(module, one)| name.split_once(':') == Some((module, one)));
    let Some((module, name)) = known else {
        return Err(Fault::nowhere("no such operation: GET /restconf/operations lists them").into());
    };
    match call.parts.method {
        Method::POST => {}
        Method::OPTIONS => return Ok(options("OPTIONS, POST")),
        _ => return Err(not_allowed("OPTIONS, POST")),
    }
    let management = call.app.management();
    if !Rights::of(&call.identity, &management).may_call(module, name) {
        return Err(Fault::forbidden(format!("/{module}:{name}")).into());
    }
    let bytes = call.body(body).await?;
    let input = if bytes.iter().all(u8::is_ascii_whitespace) {
        Input { tree: None, module, name }
    } else {
        let media = Media::content_type(&call.parts.headers)?;
        Input { tree: Some(input((module, name), media, &bytes)?), module, name }
    };
    let media = Media::accepted(&call.parts.headers)?;
    match run(&call, &input).await? {
        None => Ok(StatusCode::NO_CONTENT.into_response()),
        Some(output) => answer((module, name), &output, media),
    }
}

/// Whether the operation only reads: it needs no audit record.
pub fn only_reads(path: &str) -> bool {
    let name = path.strip_prefix("/restconf/operations/").unwrap_or_default();
    let name = name.split_once(':').map_or("", |(_, name)| name);
    matches!(
        name,
        "compare"
            | "history"
            | "status"
            | "find-flows"
            | "find-routes"
            | "find-translations"
            | "traffic-history"
            | "recent-messages"
    )
}

/// Module and name of each operation.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPERATIONS.iter().flat_map(|(module, names)| names.iter().map(|name| (*module, *name)))
}

fn namespace(module: &str) -> String {
    let module = stoa_yang::schema().context().get_module_implemented(module);
    module.map(|it| it.namespace().to_owned()).unwrap_or_default()
}

fn list(media: Media) -> String {
    match media {
        Media::Json => {
            let all = all().map(|(module, name)| (format!("{module}:{name}"), json!([null])));
            let all: serde_json::Map<String, Value> = all.collect();
            json!({ "ietf-restconf:operations": all }).to_string()
        }
        Media::Xml => {
            let all = all().map(|(module, name)| {
                let namespace = namespace(module);
                format!("<{name} xmlns=\"{namespace}\"/>")
            });
            format!("<operations xmlns=\"{NAMESPACE}\">{}</operations>", all.collect::<String>())
        }
    }
}

/// Reads the `input` of a body.
fn input(
    (module, name): (&str, &str),
    media: Media,
    bytes: &[u8],
) -> Result<DataTree<'static>, Faults> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::malformed("the body is not UTF-8"))?;
    if text.contains('\0') || text.contains("\\u0000") {
        return Err(Fault::malformed("the body contains a NUL character: remove it").into());
    }
    let (whole, format) = match media {
        Media::Json => {
            let mut members = body::members(text)?;
            let input = members.remove(&format!("{module}:input")).filter(|_| members.is_empty());
            let wrong =
                || Fault::malformed(format!("the body must be {{\"{module}:input\": {{...}}}}"));
            let input = input.filter(Value::is_object).ok_or_else(wrong)?;
            let mut whole = serde_json::Map::new();
            whole.insert(format!("{module}:{name}"), input);
            (Value::Object(whole).to_string(), DataFormat::JSON)
        }
        Media::Xml => {
            let namespace = namespace(module);
            let inner = body::inner(text, "input", &namespace)?;
            (format!("<{name} xmlns=\"{namespace}\">{inner}</{name}>"), DataFormat::XML)
        }
    };
    let context = stoa_yang::schema().context();
    let flags = DataParserFlags::STRICT;
    let (parsed, complaints) = stoa_yang::collect_errors(|| {
        DataTree::parse_op_string(context, &whole, format, flags, DataOperation::RpcYang)
    });
    parsed.map_err(|error| {
        let reason = match stoa_yang::data::errors(&complaints).into_iter().next() {
            Some(ValidationError { cause, fix, .. }) => format!("{cause}. {fix}"),
            None => error.msg.unwrap_or_else(|| "it does not match the schema".into()),
        };
        Fault::value(format!("invalid input: {reason}")).at(format!("/{module}:{name}")).into()
    })
}

/// Runs the operation. Returns its output, if any.
async fn run(call: &Call, input: &Input) -> Result<Option<Value>, Faults> {
    let datastore = call.app.datastore.clone();
    let author = call.author();
    let comment = input.value("comment").unwrap_or_default();
    match input.name {
        "commit" => {
            let is_whole = Rights::of(&call.identity, &call.app.management()).is_whole();
            // Read before the rights are checked: later edits of others are not committed with it.
            let seen = datastore.revision(Store::Candidate);
            let commit = Commit {
                comment,
                if_match: (!is_whole).then_some(seen),
                confirm_within: input.number("confirm-within").map(Duration::from_secs),
                is_overwriting: input.value("overwrite").as_deref() == Some("true"),
                is_forced: input.value("force").as_deref() == Some("true"),
                ..Commit::default()
            };
            let is_plain = commit.confirm_within.is_none() && !commit.is_overwriting;
            if !allow_commit(call, &datastore, is_plain).await? {
                return Ok(Some(json!({ "changes": 0 })));
            }
            committed(call, datastore.commit(&author, commit).await).await
        }
        "confirm" => committed(call, datastore.confirm(&author, &comment).await).await,
        "cancel" => committed(call, datastore.cancel(&author).await).await,
        "discard" => {
            datastore.discard(&author).await?;
            Ok(None)
        }
        "rollback" => {
            let back = input.number("back").unwrap_or(1);
            let back = usize::try_from(back).unwrap_or(usize::MAX);
            datastore.rollback(&author, back).await?;
            Ok(None)
        }
        "compare" => Ok(Some(read_only::compare(call, input).await?)),
        "status" => Ok(Some(read_only::status(&datastore))),
        "find-flows" => Ok(Some(searches::find_flows(call, input).await?)),
        "find-routes" => Ok(Some(searches::find_routes(call, input).await?)),
        "find-translations" => Ok(Some(searches::find_translations(call, input).await?)),
        "traffic-history" => Ok(Some(recent::traffic_history(call, input)?)),
        "recent-messages" => Ok(Some(recent::log_messages(call, input).await)),
        "log-in" => logins::log_in(call, input).map(|()| None),
        "log-out" => Ok(Some(logins::log_out(call, input)?)),
        "capture" => Ok(Some(read_only::capture(call, input).await?)),
        _ => {
            let list: Vec<Value> = datastore
                .history()
                .iter()
                .map(|entry| {
                    json!({
                        "number": entry.number.to_string(), "time": entry.time,
                        "author": entry.author, "client": entry.client.to_string(),
                        "comment": entry.comment,
                    })
                })
                .collect();
            Ok(Some(json!({ "entry": list })))
        }
    }
}

/// A commit changes running, so it needs the rights to write these nodes. Returns whether there is something to
/// commit for this client.
async fn allow_commit(call: &Call, datastore: &Datastore, is_plain: bool) -> Result<bool, Faults> {
    let management = call.app.management();
    let (identity, datastore) = (call.identity.clone(), datastore.clone());
    let check = move || {
        let rights = Rights::of(&identity, &management);
        if rights.is_whole() {
            return Ok(true);
        }
        // `overwrite` replaces a file that was changed outside; `confirm-within` can roll back later changes.
        if !is_plain && !rights.is_called_by_rule(MODULE, "commit") {
            return Err(Fault::forbidden(format!("/{MODULE}:commit")).into());
        }
        allow_confirm(&datastore, &rights)?;
        let (old, new) = datastore.compared(Store::Running, Store::Candidate);
        let mut is_change = false;
        let mut denied = None;
        visit(&old, &new, |kind, node| {
            is_change = true;
            if denied.is_none() && !permitted::may(&rights, kind, node) {
                denied = Some(permitted::shown_path(&rights, node));
            }
        })?;
        if let Some(path) = denied {
            return Err(Faults::from(Fault::forbidden(path)));
        }
        // Without a change of its own, the client must not write the files.
        Ok(is_change || datastore.unconfirmed().is_some())
    };
    let checked = call.app.turns.run(&call.identity.name, check).await;
    checked.map_err(|_| Fault::broken("cannot check the rights"))?
}

async fn committed(call: &Call, done: Result<Committed, Refusal>) -> Result<Option<Value>, Faults> {
    let done = refusals::readable(&call.app, &call.identity, done).await?;
    let warnings = warnings::readable(call, done.warnings).await;
    let mut value = json!({ "changes": done.changes.len(), "warning": warnings });
    if done.number > 0 {
        value["number"] = done.number.to_string().into();
    }
    if let Some(until) = done.confirm_by.filter(|until| *until > SystemTime::now()) {
        value["confirm-by"] = timestamp(until).into();
    }
    if let Some(author) = done.earlier.as_ref().and_then(Earlier::confirmed) {
        value["confirmed"] = author.into();
    }
    Ok(Some(value))
}

/// The output in the encoding of the client.
fn answer((module, name): (&str, &str), output: &Value, media: Media) -> Result<Response, Faults> {
    let text = match media {
        Media::Json => json!({ format!("{module}:output"): output }).to_string(),
        Media::Xml => {
            let whole = json!({ format!("{module}:{name}"): output }).to_string();
            let context = stoa_yang::schema().context();
            let kind = DataOperation::ReplyYang;
            let flags = DataParserFlags::STRICT;
            let parse =
                || DataTree::parse_op_string(context, &whole, DataFormat::JSON, flags, kind);
            let (tree, _) = stoa_yang::collect_errors(parse);
            let broken = |_| Fault::broken("the output does not match its module");
            let tree = tree.map_err(broken)?;
            let text = tree.print_string(DataFormat::XML, DataPrinterFlags::SHRINK);
            let text = text.map_err(broken)?;
            // The same element under the name that RESTCONF requires.
            let open = text.strip_prefix(&format!("<{name}")).map(|rest| format!("<output{rest}"));
            let open = open.unwrap_or(text);
            let close = format!("</{name}>");
            open.strip_suffix(&close).map(|rest| format!("{rest}</output>")).unwrap_or(open)
        }
    };
    let kind = [(header::CONTENT_TYPE, media.name())];
    Ok((StatusCode::OK, kind, format!("{text}\n")).into_response())
}
