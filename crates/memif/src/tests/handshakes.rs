//! Handshakes that go wrong.

use std::io::IoSlice;
use std::os::fd::AsRawFd;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::*;

/// The hero's reason for ending the handshake.
fn reason(answer: Result<Message, Ended>) -> String {
    match answer {
        Err(Ended::Disconnected(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn changed(change: impl FnOnce(&mut Init)) -> Message {
    let Message::Init(mut init) = init() else { unreachable!() };
    change(&mut init);
    Message::Init(init)
}

fn changed_ring(change: impl FnOnce(&mut AddRing)) -> Message {
    let Message::AddRing(mut changed) = ring(true) else { unreachable!() };
    change(&mut changed);
    Message::AddRing(changed)
}

#[test]
fn a_proper_peer_comes_up_and_is_described() {
    let mut hero = Hero::new(&config(Role::Master));
    let villain = Villain::meet(&mut hero);
    villain.complete_handshake(&mut hero);
    assert!(hero.memif.detail().contains("master of villain"), "{}", hero.memif.detail());
    drop(villain);
    assert_eq!(hero.wait_down(), "the peer closed the link");
}

#[test]
fn strangers_are_refused_with_the_reason() {
    let mut hero = Hero::new(&config(Role::Master));
    let cases = [
        (changed(|init| init.version = 0x0100), "version 0x0100"),
        (changed(|init| init.mode = 1), "mode 1"),
        (changed(|init| init.secret = [0; SECRET]), "wrong secret"),
        (changed(|init| init.secret[4] = b'!'), "wrong secret"),
        (changed(|init| init.id = 4), "no interface has id 4"),
        (Message::Ack, "INIT was expected"),
        (Message::Connect { name: String::new() }, "INIT was expected"),
    ];
    for (message, expected) in cases {
        let villain = Villain::meet(&mut hero);
        let reason = reason(villain.exchange(&mut hero, &message, None));
        assert!(reason.contains(expected), "{reason}");
    }
    Villain::meet(&mut hero).complete_handshake(&mut hero);
}

#[test]
fn bad_regions_are_refused() {
    let mut hero = Hero::new(&config(Role::Master));
    let unsealable = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
    nix::unistd::ftruncate(&unsealable, MEMORY as i64).unwrap();
    let (_, small) = Region::create(4096).unwrap();
    let cases = [
        (0, MEMORY, Some(&unsealable), "shrink"),
        (0, MEMORY, Some(&small), "in a file of 4096"),
        (0, 0, Some(&small), "0 bytes"),
        (0, u64::MAX, Some(&small), "shared in all"),
        (0, (1 << 30) + 1, Some(&small), "shared in all"),
        (1, 4096, Some(&small), "out of order"),
        (0, 4096, None, "without a file"),
    ];
    for (index, size, file, expected) in cases {
        let villain = Villain::meet(&mut hero);
        villain.exchange(&mut hero, &init(), None).unwrap();
        let region = Message::AddRegion { index, size };
        let reason = reason(villain.exchange(&mut hero, &region, file));
        assert!(reason.contains(expected), "{reason}");
    }
    Villain::meet(&mut hero).complete_handshake(&mut hero);
}

#[test]
fn bad_rings_are_refused() {
    let mut hero = Hero::new(&config(Role::Master));
    let connect = Message::Connect { name: "villain".into() };
    let cases = [
        (changed_ring(|ring| ring.log2_size = 0), "2^0"),
        (changed_ring(|ring| ring.log2_size = 15), "2^15"),
        (changed_ring(|ring| ring.log2_size = 255), "2^255"),
        (changed_ring(|ring| ring.region = 1), "outside its region"),
        (changed_ring(|ring| ring.offset = MEMORY as u32 - 1000), "outside its region"),
        (changed_ring(|ring| ring.offset = u32::MAX), "outside its region"),
        (changed_ring(|ring| ring.offset = 4), "multiple of 8"),
        (changed_ring(|ring| ring.offset = 4096), "cookie"),
        (changed_ring(|ring| ring.index = 1), "out of order"),
    ];
    for (message, expected) in cases {
        let villain = Villain::meet(&mut hero);
        villain.exchange(&mut hero, &init(), None).unwrap();
        let region = Message::AddRegion { index: 0, size: MEMORY };
        villain.exchange(&mut hero, &region, Some(&villain.file)).unwrap();
        let answer = match villain.exchange(&mut hero, &message, Some(&doorbell())) {
            Ok(Message::Ack) => villain.exchange(&mut hero, &connect, None),
            answer => answer,
        };
        let reason = reason(answer);
        assert!(reason.contains(expected), "{reason}");
    }
    let (pipe, _other) = nix::unistd::pipe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let named = std::fs::File::create(folder.path().join("anon_inode:[eventfd]")).unwrap();
    for impostor in [pipe, named.into()] {
        let villain = Villain::meet(&mut hero);
        villain.exchange(&mut hero, &init(), None).unwrap();
        let reason = reason(villain.exchange(&mut hero, &ring(true), Some(&impostor)));
        assert!(reason.contains("not an eventfd"), "{reason}");
    }
    Villain::meet(&mut hero).complete_handshake(&mut hero);
}

#[test]
fn bytes_that_are_no_message_end_the_talk() {
    let mut hero = Hero::new(&config(Role::Master));
    let ack = Message::Ack.encode();
    let raw = |bytes: &[u8], files: &[i32]| {
        let villain = Villain::meet(&mut hero);
        villain.exchange(&mut hero, &init(), None).unwrap();
        let socket = villain.channel.descriptor().as_raw_fd();
        let rights = [ControlMessage::ScmRights(files)];
        let rights = if files.is_empty() { &[] } else { &rights[..] };
        sendmsg::<()>(socket, &[IoSlice::new(bytes)], rights, MsgFlags::empty(), None).unwrap();
        assert!(villain.receive(&mut hero).is_err());
    };
    let file = doorbell();
    let fds = [file.as_raw_fd(); 9];
    let cases: [(&[u8], &[i32]); 5] = [
        (&ack[..127], &[]),
        (&[0; 200], &[]),
        (&[0xff; 128], &[]),
        (&ack, &fds[..2]),
        (&ack, &fds),
    ];
    let mut raw = raw;
    for (bytes, files) in cases {
        raw(bytes, files);
    }
    Villain::meet(&mut hero).complete_handshake(&mut hero);
}

#[test]
fn the_silent_and_the_late_do_not_disturb() {
    let mut hero = Hero::new(&config(Role::Master));
    let silent = Villain::meet(&mut hero);
    let good = Villain::meet(&mut hero);
    good.complete_handshake(&mut hero);
    let late = Villain::meet(&mut hero);
    assert!(reason(late.exchange(&mut hero, &init(), None)).contains("in use"));
    assert!(reason(silent.receive(&mut hero)).contains("in time"));
    assert!(hero.rings.is_some() && hero.down.is_none());
    // The protocol has no message after CONNECTED.
    assert!(
        reason(good.exchange(&mut hero, &init(), None)).contains("unexpected Init without a file")
    );
    hero.wait_down();
}

#[test]
fn a_peer_of_another_user_is_refused() {
    let own = nix::unistd::geteuid().as_raw();
    let other = Config { peer_user: Some(own + 1), ..config(Role::Master) };
    let mut hero = Hero::new(&other);
    let villain = Villain::meet(&mut hero);
    let reason = reason(villain.exchange(&mut hero, &init(), None));
    assert_eq!(reason, "this user is not permitted here");
    let detail = hero.memif.detail();
    let expected = format!("process {}, user {own}", std::process::id());
    assert!(detail.contains(&expected) && detail.contains("is not of user"), "{detail}");

    let mut hero = Hero::new(&Config { peer_user: Some(own), ..config(Role::Master) });
    Villain::meet(&mut hero).complete_handshake(&mut hero);
    let detail = hero.memif.detail();
    assert!(detail.contains(&format!("peer: {expected}")), "{detail}");

    // A slave looks at its master.
    let master = config(Role::Master);
    let _master = Hero::new(&master);
    let mut slave =
        Hero::new(&Config { role: Role::Slave, peer_user: Some(own + 1), ..master.clone() });
    slave.service();
    assert!(slave.memif.detail().contains("is not of user"), "{}", slave.memif.detail());
}
