//! Authentication by each kind of credentials.

use stoa_controller::config::management::Radius;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn headers(pairs: &[(&str, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: http::HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    headers
}

struct Testbed {
    _folder: tempfile::TempDir,
    authenticator: Authenticator,
    management: Management,
}

fn testbed() -> Testbed {
    let folder = tempfile::tempdir().unwrap();
    let ann = User {
        name: "ann".into(),
        password_hash: Some(password::hash("correct horse").unwrap()),
        group: vec!["operators".into()],
        admin: false,
    };
    let bob = User { name: "bob".into(), password_hash: None, group: vec![], admin: true };
    let management = Management { user: vec![ann, bob], ..Management::default() };
    Testbed { authenticator: Authenticator::new(folder.path()), _folder: folder, management }
}

impl Testbed {
    async fn ask(&self, method: Method, pairs: &[(&str, String)]) -> Result<Identity, Denied> {
        let peer = Peer::at(HERE);
        self.authenticator.identify(&self.management, &peer, &method, &headers(pairs)).await
    }
}

fn basic_header(pair: &str) -> (&'static str, String) {
    ("authorization", format!("Basic {}", STANDARD.encode(pair)))
}

#[tokio::test]
async fn passwords_authenticate_and_failures_lock_out() {
    let testbed = testbed();
    let known = testbed.ask(Method::GET, &[basic_header("ann:correct horse")]).await.unwrap();
    assert_eq!((known.name.as_str(), known.is_admin), ("ann", false));
    assert_eq!(known.groups, ["operators"]);
    assert_eq!(testbed.ask(Method::GET, &[]).await, Err(Denied::Unknown));
    // From an address without a recent login.
    let testbed = self::testbed();
    for name in ["bob", "nobody"] {
        let wrong = testbed.ask(Method::GET, &[basic_header(&format!("{name}:x"))]).await;
        assert_eq!(wrong, Err(Denied::Wrong(name.into(), Duration::ZERO)));
    }
    for _ in 0..4 {
        let _ = testbed.ask(Method::GET, &[basic_header("ann:wrong")]).await;
    }
    let locked = testbed.ask(Method::GET, &[basic_header("ann:correct horse")]).await;
    assert!(matches!(locked, Err(Denied::Wait(..))), "{locked:?}");
    for odd in ["Basic %%%", "Digest x", "Basic", "Basic YQ=="] {
        let odd = testbed.ask(Method::GET, &[("authorization", odd.into())]).await;
        assert!(matches!(odd, Err(Denied::Wrong(..) | Denied::Wait(..))), "{odd:?}");
    }
}

#[tokio::test]
async fn tokens_are_valid_while_their_user_exists() {
    let mut testbed = testbed();
    let life = Duration::from_secs(60);
    let bob = &testbed.management.user[1];
    let made = testbed.authenticator.tokens.make(bob, "script", life, SystemTime::now());
    let shown = [("authorization", format!("Bearer {}", made.await.unwrap().1))];
    let known = testbed.ask(Method::DELETE, &shown).await.unwrap();
    assert_eq!((known.name.as_str(), known.proof, known.is_admin), ("bob", Proof::Token, true));
    testbed.management.user.retain(|user| user.name != "bob");
    assert!(matches!(testbed.ask(Method::GET, &shown).await, Err(Denied::Wrong(..))));
}

#[tokio::test]
async fn a_cookie_needs_the_header_of_our_page_for_changes() {
    let testbed = testbed();
    let cookie = testbed.authenticator.sessions.begin(
        &Account::local(&testbed.management.user[0]),
        10,
        Instant::now(),
    );
    let cookie = ("cookie", format!("{}={cookie}", sessions::COOKIE));
    let read = testbed.ask(Method::GET, std::slice::from_ref(&cookie)).await.unwrap();
    assert_eq!((read.name.as_str(), read.proof), ("ann", Proof::Session));
    let forged = testbed.ask(Method::POST, std::slice::from_ref(&cookie)).await;
    assert_eq!(forged, Err(Denied::CrossSite("ann".into())));
    let ours = [cookie, (sessions::HEADER, "1".into())];
    assert!(testbed.ask(Method::POST, &ours).await.is_ok());
    let wrong = ("cookie", format!("{}=guess", sessions::COOKIE));
    assert_eq!(testbed.ask(Method::GET, &[wrong]).await, Err(Denied::Unknown));
}

#[tokio::test]
async fn a_certificate_authenticates_the_user_of_its_common_name() {
    let testbed = testbed();
    let mut management = testbed.management.clone();
    management.https.client_ca = Some("/ca.pem".into());
    let ask = async |management: &Management, name: &str| {
        let peer = Peer { certificate: Some(name.into()), ..Peer::at(HERE) };
        let fields = HeaderMap::new();
        testbed.authenticator.identify(management, &peer, &Method::PUT, &fields).await
    };
    let bob = ask(&management, "bob").await.unwrap();
    assert_eq!(bob.proof, Proof::Certificate);
    assert_eq!(ask(&management, "mallory").await, Err(Denied::Unknown));
    assert!(testbed.authenticator.reauthenticate(&management, &bob).is_some());
    // Without a client CA, the certificate of an open connection is invalid.
    assert_eq!(ask(&testbed.management, "bob").await, Err(Denied::Unknown));
    assert_eq!(testbed.authenticator.reauthenticate(&testbed.management, &bob), None);
}

#[tokio::test]
async fn concurrent_attempts_are_counted_one_by_one() {
    let testbed = std::sync::Arc::new(testbed());
    let tries = (0..12).map(|turn| {
        let testbed = std::sync::Arc::clone(&testbed);
        tokio::spawn(async move {
            testbed.ask(Method::GET, &[basic_header(&format!("ann:wrong {turn}"))]).await
        })
    });
    let mut compared = 0;
    for one in tries.collect::<Vec<_>>() {
        compared += usize::from(matches!(one.await.unwrap(), Err(Denied::Wrong(..))));
    }
    // Three without a delay, the fourth begins it; a second may pass on a slow machine.
    assert!((4..8).contains(&compared), "{compared}");
}

#[tokio::test]
async fn guesses_do_not_lock_out_a_verified_user_of_the_same_address() {
    let testbed = testbed();
    let right = basic_header("ann:correct horse");
    assert!(testbed.ask(Method::GET, std::slice::from_ref(&right)).await.is_ok());
    let bob = &testbed.management.user[1];
    let tokens = &testbed.authenticator.tokens;
    let made = tokens.make(bob, "x", Duration::from_secs(60), SystemTime::now()).await;
    for turn in 0..30 {
        testbed.authenticator.wrong(&turn.to_string(), &Peer::at(HERE));
    }
    assert!(matches!(
        testbed.ask(Method::GET, &[basic_header("bob:x")]).await,
        Err(Denied::Wait(..))
    ));
    assert!(testbed.ask(Method::GET, &[right]).await.is_ok());
    let token = ("authorization", format!("Bearer {}", made.unwrap().1));
    assert!(testbed.ask(Method::GET, &[token]).await.is_ok());
}

fn radius(server: stoa_controller::config::management::RadiusServer) -> Radius {
    Radius { server: vec![server], timeout: 1, attempts: 1, ..Radius::default() }
}

#[tokio::test]
async fn a_radius_server_authenticates_unconfigured_users() {
    use super::radius::tests::{accept, server};
    let mut testbed = testbed();
    let (one, response) = server(accept).await;
    testbed.management.radius = radius(one);
    let shown = basic_header("carl:pass");
    let known = testbed.ask(Method::GET, std::slice::from_ref(&shown)).await.unwrap();
    assert_eq!((known.name.as_str(), known.is_admin), ("carl", false));
    assert_eq!(known.groups, ["noc", "night"]);
    assert!(testbed.ask(Method::GET, &[shown]).await.is_ok());
    assert_eq!(*response.borrow(), 1, "remembered for a while");
    // Users of the configuration take precedence, and invalid names are not sent to servers.
    for pair in ["ann:wrong", "bob:anything", "no name:x"] {
        let wrong = testbed.ask(Method::GET, &[basic_header(pair)]).await;
        assert!(matches!(wrong, Err(Denied::Wrong(..))), "{pair}: {wrong:?}");
    }
    assert_eq!(*response.borrow(), 1);

    let peer = Peer::at(HERE);
    let account =
        testbed.authenticator.log_in(&testbed.management, &peer, "carl", "pass").await.unwrap();
    let cookie = testbed.authenticator.sessions.begin(&account, 10, Instant::now());
    let cookie = ("cookie", format!("{}={cookie}", sessions::COOKIE));
    let session = testbed.ask(Method::GET, std::slice::from_ref(&cookie)).await.unwrap();
    assert_eq!((session.proof, &session.groups), (Proof::Session, &known.groups));
    testbed.authenticator.end_sessions(&testbed.management);
    for one in [&session, &known] {
        assert_eq!(
            testbed.authenticator.reauthenticate(&testbed.management, one).as_ref(),
            Some(one)
        );
    }
    // Other servers, none, or a user of that name in the configuration: a new login is needed.
    let before = testbed.management.clone();
    let mut others = [before.clone(), before.clone(), before];
    others[0].radius.administrators = true;
    others[1].radius.server.clear();
    others[2].user[0].name = "carl".into();
    for other in others {
        testbed.management = other;
        let gone = testbed.ask(Method::GET, std::slice::from_ref(&cookie)).await;
        assert_eq!(gone, Err(Denied::Unknown));
        assert_eq!(testbed.authenticator.reauthenticate(&testbed.management, &known), None);
    }
}

#[tokio::test]
async fn a_radius_timeout_is_not_a_wrong_password() {
    let mut testbed = testbed();
    let (one, _) = super::radius::tests::server(|_| vec![]).await;
    testbed.management.radius = radius(one);
    for _ in 0..5 {
        let unresponsive = testbed.ask(Method::GET, &[basic_header("carl:x")]).await;
        assert_eq!(unresponsive, Err(Denied::NoRadiusReply("carl".into())));
    }
    assert!(testbed.ask(Method::GET, &[basic_header("ann:correct horse")]).await.is_ok());
}

#[tokio::test]
async fn unresponsive_servers_do_not_delay_configured_users() {
    let mut testbed = testbed();
    let (one, _) = super::radius::tests::server(|_| vec![]).await;
    testbed.management.radius = Radius { timeout: 60, ..radius(one) };
    let (strangers, ann) = ([basic_header("carl:x")], [basic_header("ann:correct horse")]);
    let stranger = testbed.ask(Method::GET, &strangers);
    tokio::select! {
        biased;
        answer = stranger => panic!("the server is silent: {answer:?}"),
        known = testbed.ask(Method::GET, &ann) => assert!(known.is_ok(), "{known:?}"),
    }
}

#[tokio::test]
async fn stream_clients_are_reauthenticated() {
    let mut testbed = testbed();
    let ann = Account::local(&testbed.management.user[0]);
    let cookie = testbed.authenticator.sessions.begin(&ann, 10, Instant::now());
    let cookie = ("cookie", format!("{}={cookie}", sessions::COOKIE));
    let session = testbed.ask(Method::GET, std::slice::from_ref(&cookie)).await.unwrap();
    let password = testbed.ask(Method::GET, &[basic_header("ann:correct horse")]).await.unwrap();
    let (token, text) = testbed
        .authenticator
        .tokens
        .make(&testbed.management.user[0], "x", Duration::from_secs(60), SystemTime::now())
        .await
        .unwrap();
    let token_shown = ("authorization", format!("Bearer {text}"));
    let by_token = testbed.ask(Method::GET, &[token_shown]).await.unwrap();
    let again = |testbed: &Testbed, one: &Identity| {
        testbed.authenticator.reauthenticate(&testbed.management, one)
    };
    for one in [&session, &password, &by_token] {
        assert_eq!(again(&testbed, one).as_ref(), Some(one));
    }
    testbed.management.user[0].admin = true;
    assert!(again(&testbed, &password).unwrap().is_admin, "the rights of now");
    testbed.authenticator.tokens.remove(token.id, None).await.unwrap();
    assert_eq!(again(&testbed, &by_token), None);
    // Another password: the cookie is invalid, even before the sessions are cleaned up.
    testbed.management.user[0].password_hash = Some("other".into());
    assert_eq!(again(&testbed, &password), None);
    assert_eq!(testbed.ask(Method::GET, &[cookie]).await, Err(Denied::Unknown));
    testbed.authenticator.end_sessions(&testbed.management);
    assert_eq!(again(&testbed, &session), None);
}
