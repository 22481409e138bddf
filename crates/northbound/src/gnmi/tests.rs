//! Paths of untrusted clients, and the service without a connection.

use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};
use stoa_api::gnmi::g_nmi_client::GNmiClient;
use stoa_api::gnmi::subscribe_request::Request as CommitAction;
use stoa_api::gnmi::subscribe_response::Response as StreamResponse;
use stoa_api::gnmi::typed_value::Value as Typed;
use stoa_api::gnmi::{
    Path, PathElem, Subscription, SubscriptionList, TypedValue, Update, subscription_list,
};
use tonic::Code;

use super::path::{PathPattern, to_gnmi};
use super::*;
use crate::auth::password;

mod secrets;

/// Parses a path such as `a/b[k=v]/c`.
pub fn path(text: &str) -> Path {
    let mut elems = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(['/', '[']).unwrap_or(rest.len());
        let mut elem = PathElem { name: rest[..end].to_owned(), ..PathElem::default() };
        rest = &rest[end..];
        while let Some(inside) = rest.strip_prefix('[') {
            let (key, after) = inside.split_once(']').unwrap();
            let (name, value) = key.split_once('=').unwrap();
            elem.key.insert(name.to_owned(), value.to_owned());
            rest = after;
        }
        rest = rest.strip_prefix('/').unwrap_or(rest);
        elems.push(elem);
    }
    Path { elem: elems, ..Path::default() }
}

const PIECES: &[&str] = &[
    "ietf-interfaces:interfaces",
    "interfaces",
    "interface",
    "stoa-system:system",
    "routing",
    "ietf-ip:ipv4",
    "ipv4",
    "address",
    "statistics",
    "name",
    "cpus",
    "workers",
    "*",
    "...",
    "",
    ":",
    "a:b:c",
    "port",
    "null",
    "'",
    "\"",
    "x'\"y",
    "\u{0}",
    "lan",
    ".",
];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => proptest::arbitrary::any::<String>(),
    ]
}

fn paths() -> impl Strategy<Value = Path> {
    let elem = (piece(), prop::collection::btree_map(piece(), piece(), 0..2));
    let elem = elem.prop_map(|(name, key)| PathElem { name, key });
    (prop::collection::vec(elem, 0..6), prop_oneof![4 => Just(String::new()), 1 => piece()])
        .prop_map(|(elem, origin)| Path { elem, origin, ..Path::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn paths_are_read_or_refused(prefix in prop::option::of(paths()), path in paths()) {
        let Ok(pattern) = PathPattern::read(prefix.as_ref(), Some(&path)) else { return Ok(()) };
        let text = pattern.resource.data_path();
        let again = PathPattern::read(None, Some(&to_gnmi(&pattern.resource.steps))).unwrap();
        prop_assert_eq!(again.resource.data_path(), text);
        prop_assert!(again.is_one());
    }
}

fn read(text: &str) -> Result<PathPattern, Status> {
    PathPattern::read(None, Some(&path(text)))
}

#[test]
fn names_get_their_modules_and_wildcards_stay() {
    let lan = "interfaces/interface[name=lan]/ipv4/address[ip=10.0.0.1]/prefix-length";
    let pattern = read(lan).unwrap();
    let there = "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv4/\
                 address[ip='10.0.0.1']/prefix-length";
    assert_eq!(pattern.resource.data_path(), there);
    assert!(pattern.is_one() && !pattern.has_facts());
    for all in ["interfaces/interface/statistics", "interfaces/interface[name=*]/statistics"] {
        let pattern = read(all).unwrap();
        assert_eq!(pattern.resource.data_path(), "/ietf-interfaces:interfaces");
        assert_eq!(pattern.facts_path(), "/ietf-interfaces:interfaces/interface/statistics");
        assert!(!pattern.is_one() && pattern.has_facts() && pattern.fields().is_some());
    }
    assert!(read("...").unwrap().is_one(), "the whole");
    let deep = read("interfaces/.../mtu").unwrap();
    assert!(deep.ends.len() > 1 && deep.fields().is_none());
    let below = Path { elem: path("interface[name=lan]").elem, ..Path::default() };
    let mut prefix = path("interfaces");
    prefix.origin = "ietf-interfaces".into();
    let pattern = PathPattern::read(Some(&prefix), Some(&below)).unwrap();
    assert_eq!(pattern.resource.data_path(), "/ietf-interfaces:interfaces/interface[name='lan']");
}

#[test]
fn wrong_paths_have_clear_errors() {
    let reason = |text: &str| read(text).unwrap_err().message().to_owned();
    assert!(
        reason("interfaces/nothing").contains("no node nothing below /ietf-interfaces:interfaces")
    );
    assert!(reason("interfaces/interface[names=a]").contains("its keys are name"));
    assert!(reason("interfaces[name=a]").contains("has no keys"));
    assert!(reason("interfaces/*/nothing").contains("no node nothing"));
    let host = "Use \"stoa-host-interface:host-interface\"";
    assert!(reason("interfaces/interface/mirror").contains(host));
    assert!(reason("interfaces/*/port/spread").contains("Use \"software-rss\""));
    let protocol =
        "routing/control-plane-protocols/control-plane-protocol[type=stoa-routing:linux]";
    assert!(reason(protocol).contains("Use \"stoa-routing:netlink\""));
    assert!(reason(&"a/".repeat(100)).contains("more than"));
    assert!(reason(".../*/.../*/mtu/*").contains("more than 4 wildcards"));
    let mut odd = path("interfaces");
    odd.origin = "cli".into();
    assert!(PathPattern::read(None, Some(&odd)).unwrap_err().message().contains("origin"));
    let mut odd = path("interfaces");
    odd.target = "router".into();
    assert!(PathPattern::read(None, Some(&odd)).unwrap_err().message().contains("prefix"));
}

struct Testbed {
    _folder: tempfile::TempDir,
    service: Arc<Service>,
    hang_up: HangUp,
    client: GNmiClient<Router>,
}

impl Testbed {
    fn new(configuration: Value, patience: Duration) -> Testbed {
        let folder = tempfile::tempdir().unwrap();
        let hash = password::hash("correct horse").unwrap();
        let mut text = configuration;
        text["stoa-management:management"] = json!({
            "limits": { "subscriptions": 8 },
            "user": [
                { "name": "root", "password-hash": hash, "admin": true },
                { "name": "ann", "password-hash": hash },
            ],
        });
        let app = AppState::new(&crate::tests::datastore(folder.path(), &text.to_string()));
        let service = Service::new(&app, patience);
        let hang_up = HangUp::default();
        let router = mounted(Arc::clone(&service)).layer(axum::Extension(hang_up.clone()));
        let client = GNmiClient::new(router.with_state(app));
        Testbed { _folder: folder, service, hang_up, client }
    }

    async fn get(&mut self, who: &str, text: &str) -> Result<BTreeMap<String, Value>, Status> {
        let request = GetRequest {
            path: vec![path(text)],
            encoding: stoa_api::gnmi::Encoding::JsonIetf.into(),
            ..GetRequest::default()
        };
        let answer = self.client.get(by(who, request)).await?.into_inner();
        Ok(answer.notification.into_iter().flat_map(|one| one.update).map(shown).collect())
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Service) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.service) {
            assert!(begun.elapsed() < Duration::from_secs(30), "never came true: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn by<T>(who: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("username", who.parse().unwrap());
    request.metadata_mut().insert("password", "correct horse".parse().unwrap());
    request
}

/// An update as its last element with keys, and its value.
fn shown(update: Update) -> (String, Value) {
    let path = update.path.unwrap();
    let last = path.elem.last().cloned().unwrap_or_default();
    let keys: String = last.key.values().map(|value| format!("={value}")).collect();
    let Some(TypedValue { value: Some(Typed::JsonIetfVal(bytes)) }) = update.val else {
        panic!("no value of JSON_IETF")
    };
    (format!("{}{keys}", last.name), serde_json::from_slice(&bytes).unwrap())
}

fn interfaces(count: usize, text: &str) -> Value {
    let one = |number| {
        json!({ "name": format!("if{number}"), "type": "iana-if-type:ethernetCsmacd",
            "description": text, "stoa-interfaces:port": { "null": {} } })
    };
    json!({ "ietf-interfaces:interfaces": { "interface": (0..count).map(one).collect::<Vec<_>>() } })
}

fn subscribe(text: &str, mode: subscription_list::Mode) -> SubscribeRequest {
    let list = SubscriptionList {
        subscription: vec![Subscription {
            path: Some(path(text)),
            mode: stoa_api::gnmi::SubscriptionMode::OnChange.into(),
            ..Subscription::default()
        }],
        mode: mode.into(),
        encoding: stoa_api::gnmi::Encoding::JsonIetf.into(),
        ..SubscriptionList::default()
    };
    SubscribeRequest { request: Some(CommitAction::Subscribe(list)), extension: Vec::new() }
}

#[tokio::test]
async fn a_get_returns_permitted_data() {
    let mut testbed = Testbed::new(interfaces(2, "text"), PATIENCE);
    let types = testbed.get("ann", "interfaces/interface/description").await.unwrap();
    assert_eq!(types, BTreeMap::from([("description".to_owned(), json!("text"))]));
    let all = testbed.get("ann", "interfaces/interface").await.unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["interface=if0", "interface=if1"]);
    assert_eq!(all["interface=if0"]["ietf-interfaces:name"], "if0");
    let nobody = testbed.get("ann", "interfaces/interface[name=none]").await.unwrap_err();
    assert_eq!(nobody.code(), Code::NotFound);
    let none = testbed.get("ann", "management/user[name=none]/*").await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    let typo = testbed.get("ann", "interfaces/interfaces").await.unwrap_err();
    assert_eq!(typo.code(), Code::InvalidArgument);
    let users = testbed.get("root", "management/user").await.unwrap();
    assert!(users.contains_key("user=ann"), "{users:?}");
    for who in ["root", "ann"] {
        let whole = format!("{:?}", testbed.get(who, "management").await.unwrap());
        assert!(whole.contains("\"ann\"") && !whole.contains("argon2"), "{whole}");
    }
    let wrong = testbed.get("eve", "interfaces").await.unwrap_err();
    assert_eq!(wrong.code(), Code::Unauthenticated);
    let plain = testbed.client.get(GetRequest::default()).await.unwrap_err();
    assert_eq!(plain.code(), Code::Unauthenticated);
    let odd = GetRequest { encoding: 2, ..GetRequest::default() };
    assert_eq!(testbed.client.get(by("ann", odd)).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_get_has_a_size_limit() {
    let mut testbed = Testbed::new(interfaces(400, &"text ".repeat(3_000)), PATIENCE);
    let mut action = async |paths: &[&str]| {
        let path = paths.iter().map(|text| path(text)).collect();
        let request = GetRequest { path, encoding: 4, r#type: 1, ..GetRequest::default() };
        let status = testbed.client.get(by("root", request)).await.unwrap_err();
        (status.code(), status.message().to_owned())
    };
    // The same 6 MB under many names.
    let many = [
        "interfaces",
        "interfaces/interface",
        "interfaces/*",
        "*/interface",
        "*/*",
        "*",
        ".../interface",
        ".../interfaces",
        ".../interfaces/interface",
        ".../interfaces/*",
        "*/.../interface",
        "interfaces/.../interface",
        "",
    ];
    let (code, words) = action(&many).await;
    assert!(code == Code::ResourceExhausted && words.contains("64 MiB"), "{code} {words}");
    let same = ["interfaces/interface", "ietf-interfaces:interfaces/interface[name=*]"];
    let (code, words) = action(&same).await;
    assert!(code == Code::InvalidArgument && words.contains("twice"), "{code} {words}");
}

#[tokio::test]
async fn a_refused_set_has_its_reason() {
    let mut testbed = Testbed::new(interfaces(1, "text"), PATIENCE);
    let text = path("interfaces/interface[name=if0]/description");
    let value = |value: Value| {
        let value = Typed::JsonIetfVal(value.to_string().into_bytes());
        Some(TypedValue { value: Some(value) })
    };
    let update = |path: Path, val| SetRequest {
        update: vec![Update { path: Some(path), val, duplicates: 0 }],
        ..SetRequest::default()
    };
    let mut action = async |who: &str, request: SetRequest| {
        let status = testbed.client.set(by(who, request)).await.unwrap_err();
        (status.code(), status.message().to_owned())
    };
    let (code, words) = action("ann", update(text.clone(), value(json!("new")))).await;
    assert_eq!(code, Code::PermissionDenied);
    assert!(words.contains("/ietf-interfaces:interfaces/interface[name='if0']"), "{words}");
    let fact = path("interfaces/interface[name=if0]/oper-status");
    assert_eq!(action("root", update(fact, value(json!("up")))).await.0, Code::InvalidArgument);
    let (code, words) = action("root", update(text.clone(), None)).await;
    assert!(code == Code::InvalidArgument && words.contains("no value"), "{words}");
    let list = path("interfaces/interface");
    let (code, words) = action("root", update(list, value(json!({})))).await;
    assert!(code == Code::InvalidArgument && words.contains("its keys are name"), "{words}");
    let lan = path("interfaces/interface[name=if0]");
    let other = json!({ "name": "other", "description": "x" });
    let (code, words) = action("root", update(lan, value(other))).await;
    assert!(code == Code::InvalidArgument && words.contains("differs"), "{words}");
    let delete = vec![path("interfaces/interface/description"); 65];
    let (code, words) = action("root", SetRequest { delete, ..SetRequest::default() }).await;
    assert!(code == Code::InvalidArgument && words.contains("at most 64"), "{words}");
    let odd = SetRequest { union_replace: vec![Update::default()], ..SetRequest::default() };
    assert_eq!(action("root", odd).await.0, Code::Unimplemented);
    let zero = update(text, value(json!("a\u{0}b")));
    assert_eq!(action("root", zero).await.0, Code::InvalidArgument);
    let log = std::fs::read_to_string(testbed._folder.path().join("audit-refused.log")).unwrap();
    assert!(log.contains("\"gnmi\"") && log.contains("PermissionDenied"), "{log}");
}

#[tokio::test]
async fn once_and_poll_send_all_values_and_sync() {
    let mut testbed = Testbed::new(interfaces(2, "text"), PATIENCE);
    let text = "interfaces/interface/description";
    let once = subscribe(text, subscription_list::Mode::Once);
    let answer = testbed.client.subscribe(by("ann", stream::iter([once]))).await.unwrap();
    let mut answer = answer.into_inner();
    let Some(StreamResponse::Update(update)) = answer.message().await.unwrap().unwrap().response
    else {
        panic!("no values")
    };
    assert_eq!(update.update.len(), 2);
    let sync = answer.message().await.unwrap().unwrap().response;
    assert_eq!(sync, Some(StreamResponse::SyncResponse(true)));
    assert!(answer.message().await.unwrap().is_none(), "it ends");
    let poll = || SubscribeRequest {
        request: Some(CommitAction::Poll(stoa_api::gnmi::Poll {})),
        extension: Vec::new(),
    };
    let action = [subscribe(text, subscription_list::Mode::Poll), poll(), poll()];
    let answer = testbed.client.subscribe(by("ann", stream::iter(action))).await.unwrap();
    let mut answer = answer.into_inner();
    let (mut values, mut syncs) = (0, 0);
    while let Some(message) = answer.message().await.unwrap() {
        match message.response.unwrap() {
            StreamResponse::Update(update) => values += update.update.len(),
            StreamResponse::SyncResponse(_) => syncs += 1,
        }
    }
    assert_eq!((values, syncs), (6, 3));
    let alone = testbed.client.subscribe(by("ann", stream::iter([poll()]))).await.unwrap();
    let refused = alone.into_inner().message().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    testbed.until("no stream is open", |service| service.streams.held() == 0).await;
    assert_eq!(testbed.service.values.all(), 0);
}

#[tokio::test]
async fn streams_have_a_limit_and_slow_readers_are_disconnected() {
    // More messages than the queue holds, without a reader.
    let mut testbed =
        Testbed::new(interfaces(400, &"text ".repeat(1_000)), Duration::from_millis(200));
    let one = || subscribe("interfaces", subscription_list::Mode::Stream);
    let quiet = testbed.client.subscribe(by("ann", stream::iter([one()]))).await.unwrap();
    testbed.until("values are reported", |service| service.values.all() > 400).await;
    let cut = tokio::time::timeout(Duration::from_secs(30), testbed.hang_up.0.notified());
    cut.await.expect("the connection is ended");
    testbed.until("the stream is gone", |service| service.streams.held() == 0).await;
    drop(quiet);
    // Streams without a subscription count as well. One client can have a quarter.
    let mut open = Vec::new();
    for _ in 0..2 {
        let silent = stream::pending::<SubscribeRequest>();
        open.push(testbed.client.subscribe(by("ann", silent)).await.unwrap());
    }
    let refused = testbed.client.subscribe(by("ann", stream::iter([one()]))).await;
    let refused = refused.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("2 for one user"), "{refused:?}");
}
