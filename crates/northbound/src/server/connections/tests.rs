//! Tests of shares, of the reserve and of who is replaced.

use super::*;

const LIMIT: usize = 256;

fn all() -> Arc<Connections> {
    let all = Arc::<Connections>::default();
    all.set_limit(LIMIT);
    all
}

fn host(site: u16, host: u8) -> IpAddr {
    let [one, two] = site.to_be_bytes();
    IpAddr::from([10, one, two, host])
}

/// Connections that a source gets which tries many times.
fn flood(all: &Arc<Connections>, from: impl Fn(u16) -> IpAddr) -> Vec<Connection> {
    (0..2_000).filter_map(|turn| all.admit(from(turn), Instant::now())).collect()
}

fn is_open(all: &Connections, connection: &Connection) -> bool {
    all.table().open.contains_key(&connection.number)
}

fn open_of(all: &Connections, connections: &[Connection]) -> usize {
    connections.iter().filter(|one| is_open(all, one)).count()
}

#[test]
fn each_source_has_its_share_and_gives_it_back() {
    let all = all();
    let six = |net: u128| IpAddr::V6((0x2001_0db8_u128 << 96 | net << 64).into());
    let open = |from: &dyn Fn(u16) -> IpAddr| open_of(&all, &flood(&all, from));
    assert_eq!(open(&|_| host(1, 1)), 64);
    assert_eq!(open(&|turn| host(1, turn as u8)), 128);
    assert_eq!(open(&|_| six(1)), 64);
    assert_eq!(open(&|turn| six(u128::from(turn) & 0xff)), 96);
    assert_eq!(open(&|turn| six((u128::from(turn) & 0xff) << 8)), 128);
    let table = all.table();
    assert!(table.by_source.is_empty() && table.open.is_empty());
    assert!(table.sites.is_empty() && table.of_known.is_empty());
}

#[test]
fn an_operator_gets_in_during_a_flood() {
    for sites in [4_u16, 1_000] {
        let all = all();
        let flooding = flood(&all, |turn| host(turn % sites, 1));
        assert!(open_of(&all, &flooding) <= LIMIT - reserve(LIMIT));
        let ann = all.admit("192.0.2.1".parse().unwrap(), Instant::now()).unwrap();
        ann.authenticate(Instant::now());
        // Later ones replace each other, not who has logged in.
        let more = flood(&all, |turn| host(turn % sites, 1));
        assert!(is_open(&all, &ann) && ann.is_authenticated());
        assert!(all.table().open.len() <= LIMIT - reserve(LIMIT));
        drop((flooding, more));
        assert_eq!(all.table().open.len(), 1);
    }
}

#[test]
fn neighbours_do_not_keep_an_operator_out() {
    let now = Instant::now();
    for is_known in [false, true] {
        let all = all();
        let ann = host(7, 1);
        if is_known {
            all.admit(ann, now).unwrap().authenticate(now);
        }
        // They have the share of the site, and others all that is left.
        let neighbours = flood(&all, |turn| host(7, 2 + (turn % 2) as u8));
        let others = flood(&all, |turn| host(100 + turn, 1));
        let own = all.admit(ann, now).unwrap();
        // While the password is checked, others come.
        let more = flood(&all, |turn| host(3_000 + turn, 1));
        assert_eq!(is_open(&all, &own), is_known, "a known client keeps its connection");
        drop((neighbours, others, more));
    }
}

#[test]
fn users_fill_the_share_of_their_site_for_unknown_clients_alone() {
    let (all, now) = (all(), Instant::now());
    let users: Vec<Connection> = (0..128)
        .filter_map(|turn| all.admit(host(1, turn), now))
        .inspect(|one| one.authenticate(now))
        .collect();
    assert_eq!(users.len(), 128);
    assert!(
        all.admit(host(1, 200), now).is_none(),
        "an unknown client, and all there have logged in"
    );
    assert!(all.admit(host(1, 5), now).is_some(), "a user of that site");
    assert!(all.admit(host(2, 5), now).is_some(), "another site");
}

#[test]
fn the_largest_site_loses_its_oldest_connection() {
    let all = all();
    let now = Instant::now();
    let first = all.admit(host(9, 1), now).unwrap();
    let many = flood(&all, |turn| host(turn % 4, 1));
    assert!(is_open(&all, &first), "a site with one connection keeps it");
    assert!(!is_open(&all, &many[0]), "the oldest of the largest site is gone");
}

#[tokio::test]
async fn a_replaced_connection_hears_of_it() {
    let all = all();
    let many = flood(&all, |turn| host(turn % 8, 1));
    let lost = many.iter().find(|one| !is_open(&all, one)).unwrap();
    lost.replaced().await;
}

#[test]
fn the_reserve_is_for_this_machine_and_known_clients() {
    let all = all();
    let now = Instant::now();
    let known = host(500, 1);
    all.admit(known, now).unwrap().authenticate(now);
    // Users hold everything else: nobody is replaced.
    let users: Vec<Connection> = (0..1_000)
        .filter_map(|turn| all.admit(host(1_000 + turn, 1), now))
        .inspect(|one| one.authenticate(now))
        .collect();
    assert_eq!(users.len(), LIMIT - reserve(LIMIT));
    assert!(all.admit("192.0.2.1".parse().unwrap(), now).is_none(), "an unknown client");
    assert!(all.admit(known, now + KNOWN).is_none(), "no longer known");
    for operator in [known, "127.0.0.1".parse().unwrap(), "::1".parse().unwrap()] {
        assert!(all.admit(operator, now).is_some(), "{operator}");
    }
    let rest: Vec<Connection> =
        (0..100).filter_map(|_| all.admit("::1".parse().unwrap(), now)).collect();
    assert_eq!(all.table().open.len(), LIMIT, "{}", rest.len());
    assert!(rest[84..].iter().all(|one| is_open(&all, one)), "then the oldest make room");
}

#[test]
fn any_limit_leaves_something_for_everybody() {
    let of = |limit| (reserve(limit), share(Scope::Client, limit), share(Scope::Site, limit));
    assert_eq!([1, 2, 8, 256].map(of), [(0, 1, 1), (1, 1, 1), (1, 2, 4), (16, 64, 128)]);
}
