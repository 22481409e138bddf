//! RADIUS servers on loopback that answer, forge responses or stay silent.

use stoa_controller::config::management::GroupAttribute;
use stoa_wire::radius::{ACCESS_ACCEPT, ACCESS_REJECT, MANAGEMENT_POLICY_ID};

use super::packet::tests::{SECRET, answer};
use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The response of a server to each request.
pub(crate) type Habit = fn(&[u8]) -> Vec<Vec<u8>>;

/// Access-Accept.
pub(crate) fn accept(request: &[u8]) -> Vec<Vec<u8>> {
    let groups = [(MANAGEMENT_POLICY_ID, &b"noc"[..]), (MANAGEMENT_POLICY_ID, &b"night"[..])];
    vec![answer(request, ACCESS_ACCEPT, SECRET, &groups, true)]
}

fn reject(request: &[u8]) -> Vec<Vec<u8>> {
    vec![answer(request, ACCESS_REJECT, SECRET, &[], true)]
}

fn say_nothing(_: &[u8]) -> Vec<Vec<u8>> {
    vec![]
}

/// A forged response before the one of the server.
fn forge_then_reject(request: &[u8]) -> Vec<Vec<u8>> {
    let forged = answer(request, ACCESS_ACCEPT, "guess", &[], true);
    let plain = answer(request, ACCESS_ACCEPT, SECRET, &[], false);
    [vec![vec![0; 3], forged, plain], reject(request)].concat()
}

/// A RADIUS server on its own port, and the number of requests it received.
pub(crate) async fn server(habit: Habit) -> (RadiusServer, tokio::sync::watch::Receiver<usize>) {
    let socket = UdpSocket::bind((HERE, 0)).await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let (response, count) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        let mut bytes = [0; LENGTH_MAX];
        while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
            response.send_modify(|count| *count += 1);
            for answer in habit(&bytes[..length]) {
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    });
    let name = format!("at {port}");
    (RadiusServer { name, address: HERE, port, shared_secret: SECRET.into() }, count)
}

fn settings(server: Vec<RadiusServer>) -> Radius {
    let group_attribute = GroupAttribute::ManagementPolicyId;
    Radius { server, timeout: 1, attempts: 2, group_attribute, ..Radius::default() }
}

#[tokio::test]
async fn an_accepted_user_has_groups_and_is_cached() {
    let (one, response) = server(accept).await;
    let settings = settings(vec![one]);
    let servers = Servers::default();
    assert_eq!(servers.was_verified(&settings, "ann", "correct horse"), None);
    let account =
        servers.ask(&settings, (HERE, None), "ann", "correct horse").await.unwrap().unwrap();
    assert_eq!((account.user.name.as_str(), account.user.admin), ("ann", false));
    assert_eq!(account.user.group, ["noc", "night"]);
    assert_eq!(*response.borrow(), 1);
    assert_eq!(servers.was_verified(&settings, "ann", "correct horse"), Some(account.clone()));
    assert_eq!(servers.account(&account.digest), Some(account));
    assert_eq!(servers.was_verified(&settings, "ann", "correct hors"), None);
    let mut other = settings.clone();
    other.server[0].shared_secret.push('x');
    assert_eq!(servers.was_verified(&other, "ann", "correct horse"), None, "other servers");
    for turn in 0..2 * REMEMBER_LIMIT {
        let user = account_of(&settings, turn);
        servers.remember(&user);
    }
    assert_eq!(servers.right().len(), REMEMBER_LIMIT);
}

fn account_of(settings: &Radius, number: usize) -> Account {
    let user = packet::Reply::Accepted {
        groups: vec![],
        is_administrative: false,
        grants: packet::Grants::default(),
    };
    Account::from_radius(user.user("ann", settings).unwrap(), settings, number.to_string())
}

#[tokio::test]
async fn forged_responses_are_discarded() {
    let (one, _) = server(forge_then_reject).await;
    let settings = settings(vec![one]);
    assert_eq!(Servers::default().ask(&settings, (HERE, None), "ann", "x").await, Ok(None));
}

#[tokio::test]
async fn an_unresponsive_server_is_tried_last() {
    let (dead, dead_received) = server(say_nothing).await;
    let (next, next_received) = server(accept).await;
    let settings = settings(vec![dead, next]);
    let servers = Servers::default();
    assert!(servers.ask(&settings, (HERE, None), "ann", "x").await.unwrap().is_some());
    assert_eq!((*dead_received.borrow(), *next_received.borrow()), (2, 1), "twice, then the next");
    let begun = Instant::now();
    assert!(servers.ask(&settings, (HERE, None), "bob", "x").await.unwrap().is_some());
    assert_eq!((*dead_received.borrow(), *next_received.borrow()), (2, 2));
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody waits for it a second time");
}

#[tokio::test]
async fn without_a_response_nobody_is_authenticated() {
    let (dead, _) = server(say_nothing).await;
    let gone = UdpSocket::bind((HERE, 0)).await.unwrap().local_addr().unwrap().port();
    let gone = RadiusServer { port: gone, ..dead.clone() };
    let settings = Radius { attempts: 1, ..settings(vec![gone, dead]) };
    assert_eq!(
        Servers::default().ask(&settings, (HERE, None), "ann", "x").await,
        Err(NoRadiusReply)
    );
    let none = Radius::default();
    assert_eq!(Servers::default().ask(&none, (HERE, None), "ann", "x").await, Err(NoRadiusReply));
}
