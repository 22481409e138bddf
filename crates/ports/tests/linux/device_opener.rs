//! The device opener as a process of its own: what it refuses, when it ends, and the drivers with it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use stoa_ports::device_opener::message::{ANSWER_MAX, Answer, Done, Refusal, Request};
use stoa_ports::device_opener::{self, Operation, SocketKind};
use stoa_ports::{AfPacketConfig, Identity, NotEntered, PortConfig, Step};

use crate::side::{DEADLINE, Side, join, namespaces, until};

/// What a process of this test program is: the opener, or one whose ports are opened by an opener.
const ROLE: &str = "STOA_TEST_DEVICE_OPENER";

/// This test program as another process with a role: it runs the tests whose names contain `filter`.
fn program(role: &str, filter: &[&str]) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(filter).arg("--test-threads=2").env(ROLE, role);
    program
}

/// The arguments of the test that is an opener.
const BE_OPENER: [&str; 2] = ["--exact", "device_opener::be_opener"];

fn opener() -> Command {
    program("opener", &BE_OPENER)
}

/// Not a test: what the process of the opener does.
#[test]
fn be_opener() {
    let role = std::env::var(ROLE).unwrap_or_default();
    if !["opener", "bound opener"].contains(&&*role) {
        return;
    }
    let socket = device_opener::inherited_socket().expect("a socket");
    if role == "bound opener" {
        device_opener::end_with_parent(&socket).expect("a parent");
    }
    device_opener::serve(&socket, |trouble| eprintln!("{trouble:?}")).expect("it ends in order");
    // Without the words of the harness.
    std::process::exit(0);
}

/// In a process with that role, has all ports in other namespaces opened by an opener.
pub fn use_opener() {
    static STARTED: Once = Once::new();
    if std::env::var(ROLE).as_deref() == Ok("user") {
        STARTED.call_once(|| device_opener::start(&mut opener()).expect("an opener"));
    }
}

/// An opener, and the other end of its socket.
struct Peer {
    socket: Option<OwnedFd>,
    process: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.socket = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Peer {
    fn start() -> Self {
        Self::begin(opener())
    }

    fn begin(mut opener: Command) -> Self {
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let (ours, theirs) =
            socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC).expect("a pair");
        let process = opener.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn();
        Self { socket: Some(ours), process: process.expect("an opener") }
    }

    /// Sends any bytes, and descriptors beside them; returns the answer and how many descriptors it has.
    fn send(&self, bytes: &[u8], beside: &[RawFd]) -> (Answer, usize) {
        let socket = self.socket.as_ref().expect("open").as_raw_fd();
        let rights = [ControlMessage::ScmRights(beside)];
        let rights: &[_] = if beside.is_empty() { &[] } else { &rights };
        sendmsg::<()>(socket, &[IoSlice::new(bytes)], rights, MsgFlags::empty(), None)
            .expect("sent");
        let mut answer = [0; ANSWER_MAX];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let (length, descriptors) = {
            let mut into = [IoSliceMut::new(&mut answer)];
            let got = recvmsg::<()>(socket, &mut into, Some(&mut space), MsgFlags::empty());
            let got = got.expect("an answer");
            let rights = got.cmsgs().expect("whole").map(|control| match control {
                nix::sys::socket::ControlMessageOwned::ScmRights(numbers) => numbers.len(),
                _ => 0,
            });
            (got.bytes, rights.sum())
        };
        (Answer::decode(&answer[..length]).expect("an answer"), descriptors)
    }

    /// Asks for something in the namespace that has the name now.
    fn ask(&self, netns: &str, operation: Operation) -> Result<Done, Refusal> {
        self.ask_for(netns, identity(netns), operation)
    }

    fn ask_for(
        &self,
        netns: &str,
        expected: Identity,
        operation: Operation,
    ) -> Result<Done, Refusal> {
        let request = Request { number: 7, netns: netns.into(), expected, operation };
        let (answer, descriptors) = self.send(&request.encode(), &[]);
        assert_eq!(answer.number, 7);
        let expected = answer.result.as_ref().map_or(0, |done| done.descriptors.into());
        assert_eq!(descriptors, expected);
        answer.result
    }
}

/// The namespace of that name.
fn identity(netns: &str) -> Identity {
    let file = std::fs::metadata(Path::new("/run/netns").join(netns));
    file.map(Identity::from).unwrap_or_default()
}

#[test]
fn an_invalid_request_is_refused_and_the_opener_lives_on() {
    let Some([near, _far]) = namespaces("an_invalid_request_is_refused") else { return };
    let peer = Peer::start();
    let packet = || Operation::Socket(SocketKind::Packet);
    let done = Done { descriptors: 1, ..Done::default() };
    for netns in ["/proc/self/ns/net", "../../proc/self/ns/net", "..", ""] {
        assert_eq!(peer.ask(netns, packet()), Err(Refusal::Invalid), "{netns:?}");
    }
    let all = Operation::Settings { device: "all".into() };
    assert_eq!(peer.ask(near.name(), all), Err(Refusal::Invalid));
    let (netns, expected) = (near.name().to_owned(), identity(near.name()));
    let good = Request { number: 9, netns, expected, operation: packet() }.encode();
    // AF_UNIX is no operation, nor is anything else that is not in the list.
    for kind in 8..=u8::MAX {
        let mut bytes = good.clone();
        bytes[4] = kind;
        let (answer, descriptors) = peer.send(&bytes, &[]);
        assert_eq!((answer.number, answer.result), (9, Err(Refusal::Invalid)));
        assert_eq!(descriptors, 0);
    }
    for bytes in [&b"x"[..], &[0xff; 4096]] {
        assert_eq!(peer.send(bytes, &[]).0.result, Err(Refusal::Invalid));
    }
    let gone = NotEntered { step: Step::Open, errno: libc::ENOENT };
    assert_eq!(peer.ask("stoa-no-such-namespace", packet()), Err(Refusal::NotEntered(gone)));
    let failed = peer.ask(near.name(), Operation::DropBehindSockets { index: i32::MAX as u32 });
    assert!(matches!(failed, Err(Refusal::Failed { .. })), "{failed:?}");
    // Descriptors that somebody sends are not kept.
    let open = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", peer.process.id()));
        open.expect("it runs").count()
    };
    let before = open();
    assert_eq!(peer.send(&good, &[0, 1, 2]).0.result, Ok(done.clone()));
    assert_eq!(peer.ask(near.name(), packet()), Ok(done));
    // It closes its own after it has sent them.
    until("none is kept", || open() <= before);
}

/// What a port asks for later must be in the namespace where it found its device.
#[test]
fn a_namespace_that_was_made_again_is_not_entered() {
    let Some([near, _far]) = namespaces("a_namespace_that_was_made_again") else { return };
    let (peer, name) = (Peer::start(), near.name());
    // Like the sockets of a port, it keeps the first one: the kernel gives its identity to no other.
    let _held = std::fs::File::open(Path::new("/run/netns").join(name)).expect("a namespace");
    let first = identity(name);
    let route = || Operation::Socket(SocketKind::Route);
    assert!(peer.ask_for(name, first, route()).is_ok());
    for change in ["delete", "add"] {
        let done = Command::new("ip").args(["netns", change, name]).status().expect("it runs");
        assert!(done.success(), "{change}");
    }
    let other = NotEntered { step: Step::Compare, errno: libc::ESTALE };
    for operation in [route(), Operation::Tun, Operation::Settings { device: "lo".into() }] {
        assert_eq!(
            peer.ask_for(name, first, operation),
            Err(Refusal::NotEntered(other)),
            "another one has the name"
        );
    }
    assert!(peer.ask(name, route()).is_ok(), "a port that begins anew finds it");
}

#[test]
fn the_opener_ends_with_the_other_end_of_its_socket() {
    let mut peer = Peer::start();
    assert!(peer.process.try_wait().expect("a child").is_none());
    peer.socket = None;
    until("it ends", || peer.process.try_wait().expect("a child").is_some());
    assert!(peer.process.wait().expect("a child").success());
}

/// Its socket is still open: whoever took the forwarder over may have passed the other end on.
#[test]
fn an_opener_ends_with_its_parent_whoever_has_the_socket() {
    let begin = || {
        let peer = Peer::begin(program("bound opener", &BE_OPENER));
        // It is under way.
        assert_eq!(peer.ask("..", Operation::Tun), Err(Refusal::Invalid));
        peer
    };
    // The kernel counts the thread that started it as its parent (prctl(2), PR_SET_PDEATHSIG).
    let mut peer = std::thread::spawn(begin).join().expect("no panic");
    until("it ends", || peer.process.try_wait().expect("a child").is_some());
    let status = peer.process.wait().expect("a child");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
}

#[test]
fn an_opener_of_another_parent_does_not_begin() {
    let mut between = Command::new("/bin/sh");
    between
        .args(["-c", r#""$0" "$@"; exit $?"#])
        .arg(std::env::current_exe().expect("this program"));
    between.args(BE_OPENER).env(ROLE, "bound opener");
    let mut peer = Peer::begin(between);
    until("it ends", || peer.process.try_wait().expect("a child").is_some());
    assert!(!peer.process.wait().expect("a child").success());
}

/// Runs this test in a process of its own, whose ports are opened by an opener; whether this is that process.
fn in_user(test: &str) -> bool {
    if std::env::var_os(ROLE).is_some() {
        use_opener();
        return true;
    }
    let name = format!("device_opener::{test}");
    let output = program("user", &["--exact", &name, "--nocapture"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let is_done = output.status.success() && text.contains("1 passed");
    assert!(is_done, "{text}{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// The thread that opens the port has no capability at all, so the socket is the opener's.
#[test]
fn a_thread_without_capabilities_opens_a_port_elsewhere() {
    if !nix::unistd::geteuid().is_root()
        || !in_user("a_thread_without_capabilities_opens_a_port_elsewhere")
    {
        return;
    }
    let Some(spaces) = namespaces("a_thread_without_capabilities") else { return };
    join(&spaces);
    let netns = Some(spaces[0].name().to_owned());
    let config = AfPacketConfig { device: "near0".into(), netns, ..Default::default() };
    let detail = std::thread::spawn(move || {
        stoa_engine::capabilities::keep(&[]).expect("given up");
        Side::open(&PortConfig::AfPacket(config)).port.detail()
    });
    let detail = detail.join().expect("no panic");
    // The opener has put the program there, too.
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let release: Vec<u32> = kernel.split('.').map_while(|part| part.parse().ok()).collect();
    assert!(release < vec![6, 6] || !detail.contains("Linux processes"), "{detail}");
}

#[test]
fn an_opener_that_has_ended_is_an_error() {
    if !nix::unistd::geteuid().is_root() || !in_user("an_opener_that_has_ended_is_an_error") {
        return;
    }
    let Some([near, _far]) = namespaces("an_opener_that_has_ended") else { return };
    device_opener::end();
    let pool = stoa_engine::Pool::leak(512, stoa_engine::pool::HugePages::Never).expect("memory");
    let netns = Some(near.name().to_owned());
    let config =
        PortConfig::AfPacket(AfPacketConfig { device: "lo".into(), netns, ..Default::default() });
    // One that does not begin.
    assert!(device_opener::start(&mut Command::new("/no/such/program")).is_err());
    let text = stoa_ports::open(&config, pool).err().expect("refused").to_string();
    assert!(text.contains("was not started") && text.contains("restart the forwarder"), "{text}");
    // One that ends at once.
    device_opener::start(&mut Command::new("/bin/true")).expect("started");
    let begun = Instant::now();
    loop {
        let error = stoa_ports::open(&config, pool).err().expect("refused");
        assert!(error.may_pass(), "{error}");
        let text = error.to_string();
        assert!(text.contains("has ended") && text.contains("restart the forwarder"), "{text}");
        if text.contains("exit status: 0") {
            break;
        }
        // Its socket is closed before it has ended.
        assert!(begun.elapsed() < DEADLINE, "{text}");
        std::thread::sleep(Duration::from_millis(2));
    }
    // It is reported once.
    assert!(device_opener::newly_ended().is_some_and(|status| status.success()));
    assert_eq!(device_opener::newly_ended(), None);
    device_opener::end();
}

/// The tests of the drivers once more, with descriptors of an opener.
#[test]
fn drivers_work_with_descriptors_of_an_opener() {
    if std::env::var_os(ROLE).is_some() || !nix::unistd::geteuid().is_root() {
        return;
    }
    let drivers = ["af_packet::", "af_xdp::", "host_interface::", "tap::"];
    let output = program("user", &drivers).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(drivers.iter().all(|driver| text.contains(driver)), "{text}");
}
