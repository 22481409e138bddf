//! gNMI on the real router: over TLS, with users, on ports in memory.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use stoa_api::gnmi::g_nmi_client::GNmiClient;
use stoa_api::gnmi::subscribe_request::Request;
use stoa_api::gnmi::subscribe_response::Response;
use stoa_api::gnmi::subscription_list::Mode;
use stoa_api::gnmi::typed_value::Value as Typed;
use stoa_api::gnmi::{
    Encoding, GetRequest, Notification, Path, PathElem, SetRequest, SubscribeRequest,
    SubscribeResponse, Subscription, SubscriptionList, SubscriptionMode, TypedValue, Update,
};
use stoa_api::gnmi_ext::commit::Action;
use stoa_api::gnmi_ext::extension::Ext;
use stoa_api::gnmi_ext::{Commit, CommitCancel, CommitConfirm, CommitRequest, Extension};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::https::{DEADLINE, Router, hash};
use crate::testbed::interface;

/// Parses a path such as `a/b[k=v]/c`; values have no slash.
pub fn path(text: &str) -> Path {
    let elem = text.split('/').map(|step| {
        let (name, keys) = step.split_once('[').unwrap_or((step, ""));
        let keys = keys.split(['[', ']']).filter_map(|key| key.split_once('='));
        let key = keys.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        PathElem { name: name.to_owned(), key }
    });
    Path { elem: elem.collect(), ..Path::default() }
}

pub fn text(path: &Path) -> String {
    let step = |elem: &PathElem| {
        let keys = elem.key.iter().map(|(name, value)| format!("[{name}={value}]"));
        format!("{}{}", elem.name, keys.collect::<String>())
    };
    path.elem.iter().map(step).collect::<Vec<_>>().join("/")
}

pub fn update(text: &str, value: Value) -> Update {
    let value = Typed::JsonIetfVal(value.to_string().into_bytes());
    Update { path: Some(path(text)), val: Some(TypedValue { value: Some(value) }), duplicates: 0 }
}

pub fn value(update: &Update) -> Value {
    match update.val.as_ref().and_then(|val| val.value.as_ref()) {
        Some(Typed::JsonIetfVal(bytes)) => serde_json::from_slice(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub struct Testbed {
    pub router: Router,
    pub client: GNmiClient<Channel>,
}

impl Testbed {
    async fn new() -> Testbed {
        Testbed::with(json!({
            "ietf-interfaces:interfaces": { "interface": [interface("lan", "10.0.0.1")] },
        }))
        .await
    }

    pub async fn with(configuration: Value) -> Testbed {
        let hash = hash();
        let users = json!([
            { "name": "root", "password-hash": hash, "admin": true },
            { "name": "ann", "password-hash": hash },
        ]);
        let start = move || Router::start(configuration, users);
        let router = tokio::task::spawn_blocking(start).await.unwrap();
        let client = GNmiClient::new(connect(&router).await);
        Testbed { router, client }
    }

    pub async fn get(&mut self, text: &str) -> Result<Vec<Update>, Status> {
        let request = GetRequest {
            path: vec![path(text)],
            encoding: Encoding::JsonIetf.into(),
            ..GetRequest::default()
        };
        let reply = self.client.get(by("root", request)).await?.into_inner();
        Ok(reply.notification.into_iter().flat_map(|one| one.update).collect())
    }

    pub async fn set(&mut self, request: SetRequest) -> Result<(), Status> {
        self.client.set(by("root", request)).await.map(|_| ())
    }

    pub async fn update(&mut self, text: &str, value: Value) -> Result<(), Status> {
        self.set(SetRequest { update: vec![update(text, value)], ..SetRequest::default() }).await
    }

    pub async fn stream(&mut self, who: &str, list: SubscriptionList) -> Stream {
        let first =
            SubscribeRequest { request: Some(Request::Subscribe(list)), extension: Vec::new() };
        let requests = stream::iter([first]).chain(stream::pending());
        Stream { reply: self.client.subscribe(by(who, requests)).await.unwrap().into_inner() }
    }
}

pub struct Stream {
    reply: Streaming<SubscribeResponse>,
}

impl Stream {
    async fn next(&mut self) -> Result<Response, Status> {
        let reply = tokio::time::timeout(DEADLINE, self.reply.message()).await.expect("in time")?;
        Ok(reply.expect("the stream goes on").response.expect("a response"))
    }

    /// All updates until the first sync response.
    pub async fn first(&mut self) -> Vec<Update> {
        let mut all = Vec::new();
        loop {
            match self.next().await.unwrap() {
                Response::Update(reply) => all.extend(reply.update),
                Response::SyncResponse(_) => return all,
            }
        }
    }

    pub async fn until(&mut self, is_so: impl Fn(&Notification) -> bool) -> Notification {
        loop {
            match self.next().await.unwrap() {
                Response::Update(reply) if is_so(&reply) => return reply,
                _ => {}
            }
        }
    }
}

pub fn by<T>(who: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("username", who.parse().unwrap());
    request.metadata_mut().insert("password", "correct horse".parse().unwrap());
    request
}

pub fn watched(list: &[(&str, SubscriptionMode)]) -> SubscriptionList {
    let one = |(text, mode): &(&str, SubscriptionMode)| Subscription {
        path: Some(path(text)),
        mode: (*mode).into(),
        sample_interval: 1_000_000_000,
        ..Subscription::default()
    };
    SubscriptionList {
        subscription: list.iter().map(one).collect(),
        mode: Mode::Stream.into(),
        encoding: Encoding::JsonIetf.into(),
        ..SubscriptionList::default()
    }
}

async fn connect(router: &Router) -> Channel {
    let certificate = router.path("stoa.state/https/certificate.pem");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (config, port) = (Arc::new(config), router.port);
    let connector = tower::service_fn(move |_| {
        let tls = tokio_rustls::TlsConnector::from(Arc::clone(&config));
        async move {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            let name = ServerName::try_from("localhost").unwrap();
            tls.connect(name, stream).await.map(TokioIo::new)
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap()
}

const LAN: &str = "interfaces/interface[name=lan]";

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_one_transaction() {
    let mut testbed = Testbed::new().await;
    let description = format!("{LAN}/description");
    testbed.update(&description, json!("first")).await.unwrap();
    // Delete, then replace, then update, independent of the order of the fields.
    let request = SetRequest {
        update: vec![update(&description, json!("second"))],
        replace: vec![update(
            "interfaces/interface[name=wan]",
            json!({ "type": "iana-if-type:ethernetCsmacd", "port": { "null": {} },
                "ietf-ip:ipv4": { "address": [{ "ip": "10.0.1.1", "prefix-length": 24 }] } }),
        )],
        delete: vec![path("interfaces/interface[name=*]/description")],
        ..SetRequest::default()
    };
    testbed.set(request).await.unwrap();
    let texts = testbed.get("interfaces/interface/description").await.unwrap();
    assert_eq!(texts.iter().map(value).collect::<Vec<_>>(), [json!("second")]);
    let wan = testbed.get("interfaces/interface[name=wan]").await.unwrap();
    assert_eq!(value(&wan[0])["ietf-ip:ipv4"]["address"][0]["ip"], "10.0.1.1");
    // One invalid part leaves everything unchanged.
    let request = SetRequest {
        delete: vec![path(&description)],
        update: vec![update(&format!("{LAN}/ipv4/mtu"), json!(12))],
        ..SetRequest::default()
    };
    let refused = testbed.set(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    assert!(refused.message().contains("mtu"), "{refused:?}");
    assert_eq!(value(&testbed.get(&description).await.unwrap()[0]), json!("second"));
    // Deleting a missing node succeeds. A leaf-list is replaced as a whole.
    let groups = "management/user[name=ann]/group";
    let nothing = SetRequest { delete: vec![path(groups)], ..SetRequest::default() };
    testbed.set(nothing).await.unwrap();
    for list in [json!(["a", "b"]), json!(["b", "c"])] {
        let replace = vec![update(groups, list.clone())];
        testbed.set(SetRequest { replace, ..SetRequest::default() }).await.unwrap();
        assert_eq!(value(&testbed.get(groups).await.unwrap()[0]), list);
    }
    let by_ann = testbed
        .client
        .set(by("ann", SetRequest { delete: vec![path(LAN)], ..SetRequest::default() }));
    assert_eq!(by_ann.await.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_name_is_refused_with_the_new_one() {
    let mut testbed = Testbed::new().await;
    let path = testbed.get(&format!("{LAN}/mirror")).await.unwrap_err();
    assert!(path.message().contains("Use \"stoa-host-interface:host-interface\""), "{path:?}");
    let port = json!({ "null": {}, "spread": true });
    let value = testbed.update(&format!("{LAN}/port"), port).await.unwrap_err();
    assert_eq!(value.code(), Code::InvalidArgument, "{value:?}");
    assert!(value.message().contains("Use \"software-rss\""), "{value:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_streamed_as_they_happen() {
    let mut testbed = Testbed::new().await;
    let (description, status) = (format!("{LAN}/description"), format!("{LAN}/oper-status"));
    let on_change = SubscriptionMode::OnChange;
    let list = watched(&[(&description, on_change), (&status, on_change)]);
    let mut stream = testbed.stream("ann", list).await;
    let first = stream.first().await;
    assert_eq!(first.iter().map(value).collect::<Vec<_>>(), [json!("up")]);
    testbed.update(&description, json!("new")).await.unwrap();
    let reply = stream.until(|reply| !reply.update.is_empty()).await;
    assert_eq!(value(&reply.update[0]), json!("new"));
    let there = "ietf-interfaces:interfaces/interface[name=lan]/description";
    assert_eq!(text(reply.update[0].path.as_ref().unwrap()), there);
    testbed
        .set(SetRequest { delete: vec![path(&description)], ..SetRequest::default() })
        .await
        .unwrap();
    let reply = stream.until(|reply| !reply.delete.is_empty()).await;
    assert_eq!(text(&reply.delete[0]), there);
    testbed.update(&format!("{LAN}/enabled"), json!(false)).await.unwrap();
    let reply = stream.until(|reply| !reply.update.is_empty()).await;
    assert_eq!(value(&reply.update[0]), json!("down"));
    // A deleted entry is one delete.
    let mut all = testbed
        .stream("root", watched(&[("interfaces/interface", SubscriptionMode::TargetDefined)]))
        .await;
    assert!(all.first().await.len() > 10);
    let gone = SetRequest { delete: vec![path(LAN)], ..SetRequest::default() };
    testbed.set(gone).await.unwrap();
    let reply = all.until(|reply| !reply.delete.is_empty()).await;
    let deleted = text(&reply.delete[0]);
    assert!(deleted.ends_with("interface[name=lan]"), "{reply:?}");
    // A removed user receives no more updates.
    let ann =
        SetRequest { delete: vec![path("management/user[name=ann]")], ..SetRequest::default() };
    testbed.set(ann).await.unwrap();
    let end = loop {
        match stream.next().await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!(end.code(), Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_on_time_and_have_only_the_subscribed_values() {
    let mut testbed = Testbed::new().await;
    let statistics = format!("{LAN}/statistics");
    let mut list = watched(&[(&statistics, SubscriptionMode::Sample)]);
    let mut sampled = testbed.stream("root", list.clone()).await;
    let first = sampled.first().await.len();
    assert!(first > 3, "{first} values");
    let begun = std::time::Instant::now();
    for _ in 0..2 {
        let reply = sampled.until(|_| true).await;
        assert_eq!(reply.update.len(), first, "all values, changed or not");
    }
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    list.updates_only = true;
    list.subscription[0].suppress_redundant = true;
    list.subscription[0].heartbeat_interval = 2_000_000_000;
    let mut quiet = testbed.stream("root", list.clone()).await;
    assert!(quiet.first().await.is_empty());
    // Nothing changes on this interface: the updates are heartbeats.
    assert_eq!(quiet.until(|_| true).await.update.len(), first);
    list.subscription[0].sample_interval = 1_000;
    let refused = testbed.stream("root", list).await.next().await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument, "{refused:?}");
    assert!(refused.message().contains("sample_interval"), "{refused:?}");
}

fn extended(id: &str, action: Action, list: Vec<Update>) -> SetRequest {
    let commit = Commit { id: id.into(), action: Some(action) };
    SetRequest {
        update: list,
        extension: vec![Extension { ext: Some(Ext::Commit(commit)) }],
        ..SetRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_waits_for_its_confirmation() {
    let mut testbed = Testbed::new().await;
    let description = format!("{LAN}/description");
    let wait = || Action::Commit(CommitRequest::default());
    let text = |words: &str| vec![update(&description, json!(words))];
    testbed.set(extended("one", wait(), text("first"))).await.unwrap();
    assert_eq!(value(&testbed.get(&description).await.unwrap()[0]), json!("first"));
    let other = testbed.update(&description, json!("other")).await.unwrap_err();
    assert_eq!(other.code(), Code::FailedPrecondition);
    assert!(other.message().contains("confirm"), "{other:?}");
    let cancel = |id| extended(id, Action::Cancel(CommitCancel {}), Vec::new());
    let wrong = testbed.set(cancel("two")).await.unwrap_err();
    assert_eq!(wrong.code(), Code::FailedPrecondition);
    testbed.set(cancel("one")).await.unwrap();
    assert_eq!(testbed.get(&description).await.unwrap_err().code(), Code::NotFound);
    testbed.set(extended("two", wait(), text("second"))).await.unwrap();
    let confirm = extended("two", Action::Confirm(CommitConfirm {}), Vec::new());
    testbed.set(confirm.clone()).await.unwrap();
    assert_eq!(value(&testbed.get(&description).await.unwrap()[0]), json!("second"));
    assert_eq!(testbed.set(confirm).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_authenticate_and_guessing_locks_out() {
    let mut testbed = Testbed::new().await;
    let json = ("Content-Type", "application/json");
    let body = json!({ "name": "gnmi" }).to_string();
    let made = testbed.router.ask("root:correct horse", "POST", "/tokens", &[json], &body);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let mut request =
        tonic::Request::new(GetRequest { path: vec![path(LAN)], ..GetRequest::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    testbed.client.get(request).await.unwrap();
    let mut refused = 0;
    loop {
        let mut request = by("ann", GetRequest::default());
        request.metadata_mut().insert("password", "wrong horse".parse().unwrap());
        match testbed.client.get(request).await.unwrap_err().code() {
            Code::Unauthenticated => refused += 1,
            code => break assert_eq!(code, Code::ResourceExhausted),
        }
        // On a busy machine the first delays end before the next guess; they double.
        assert!(refused < 12, "{refused} guesses in a row are not locked out");
    }
    assert!(refused >= 4, "{refused} typing errors lock out");
    let log = std::fs::read_to_string(testbed.router.path("stoa.state/audit-logins.log")).unwrap();
    assert!(log.contains("/gnmi.gNMI/Get") && log.contains("locked out"), "{log}");
}
