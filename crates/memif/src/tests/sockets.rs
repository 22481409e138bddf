//! Sockets: shared, stale, taken; and malicious masters.

use nix::sys::socket::{Backlog, bind, listen};
use std::os::fd::{AsRawFd, FromRawFd};

use super::*;
use crate::error::OpenError;
use crate::messages::Hello;
use crate::socket::seqpacket;

#[test]
fn ids_share_a_socket_and_a_file_is_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memif.sock");
    let socket = path.display().to_string();
    let with = |id| Config { socket: socket.clone(), id, ..config(Role::Master) };
    let mut three = Hero::new(&with(3));
    let four = Hero::new(&with(4));
    assert!(matches!(Memif::open(&with(3)), Err(OpenError::Busy { .. })));
    Villain::meet(&mut three).complete_handshake(&mut three);
    assert!(four.rings.is_none());
    drop((three, four));
    assert!(!path.exists());
    // A process that died left its socket: it is taken over.
    let stale = seqpacket().unwrap();
    bind(stale.as_raw_fd(), &address(&socket).unwrap()).unwrap();
    drop(stale);
    assert!(path.exists());
    let mut again = Hero::new(&with(3));
    Villain::meet(&mut again).complete_handshake(&mut again);
    drop(again);
    // What is not a socket is not ours to remove.
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Memif::open(&with(3)), Err(OpenError::Busy { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_socket_that_lives_is_busy() {
    let config = config(Role::Master);
    let other = seqpacket().unwrap();
    bind(other.as_raw_fd(), &address(&config.socket).unwrap()).unwrap();
    listen(&other, Backlog::new(1).unwrap()).unwrap();
    assert!(matches!(Memif::open(&config), Err(OpenError::Busy { .. })));
}

#[test]
fn senseless_configurations_are_refused() {
    let good = config(Role::Slave);
    let bad = [
        Config { socket: String::new(), ..good.clone() },
        Config { socket: "x".repeat(200), ..good.clone() },
        Config { secret: Some("x".repeat(25)), ..good.clone() },
        Config { name: "x".repeat(32), ..good.clone() },
        Config { frame_max: 63, ..good.clone() },
        Config { ring_size: 1000, ..good.clone() },
        Config { ring_size: 32_768, ..good.clone() },
        Config { buffer_size: 2000, ..good.clone() },
        Config { rx_queues: 17, ..good.clone() },
        Config { ring_size: 16_384, buffer_size: 65_536, rx_queues: 16, ..good.clone() },
    ];
    for config in bad {
        assert!(matches!(Memif::open(&config), Err(OpenError::Config { .. })), "{config:?}");
    }
    let nowhere = Config { socket: "/no/such/folder/memif.sock".into(), ..config(Role::Master) };
    assert!(matches!(Memif::open(&nowhere), Err(OpenError::File { .. })));
}

/// A listening master whose every word the test chooses.
struct Impostor {
    listener: OwnedFd,
}

impl Impostor {
    fn listen(socket: &str) -> Self {
        let listener = seqpacket().unwrap();
        bind(listener.as_raw_fd(), &address(socket).unwrap()).unwrap();
        listen(&listener, Backlog::new(4).unwrap()).unwrap();
        Self { listener }
    }

    fn accept(&self, hero: &mut Hero) -> Channel {
        until("a slave", || {
            hero.service();
            let fd = nix::sys::socket::accept(self.listener.as_raw_fd()).ok()?;
            // SAFETY: the kernel just made this descriptor for us alone.
            Some(Channel::new(unsafe { OwnedFd::from_raw_fd(fd) }))
        })
    }
}

fn hello() -> Hello {
    Hello {
        name: "impostor".into(),
        version_min: VERSION,
        version_max: VERSION,
        region_max: 0,
        m2s_max: 0,
        s2m_max: 0,
        log2_size_max: 6,
    }
}

/// The slave's next message, with its file.
fn receive(hero: &mut Hero, channel: &Channel) -> Result<(Message, Option<OwnedFd>), Ended> {
    until("a word", || {
        hero.service();
        channel.receive().transpose()
    })
}

#[test]
fn a_slave_ends_nonsense_and_tries_again() {
    let config = config(Role::Slave);
    let mut hero = Hero::new(&config);
    let impostor = Impostor::listen(&config.socket);
    let openings = [
        Message::Ack,
        Message::Connected { name: String::new() },
        Message::Hello(Hello { version_min: 0x0300, version_max: 0x0400, ..hello() }),
        init(),
    ];
    for opening in openings {
        let channel = impostor.accept(&mut hero);
        channel.send(&opening, None).unwrap();
        assert!(matches!(receive(&mut hero, &channel), Err(Ended::Disconnected(_))), "{opening:?}");
    }
    // CONNECTED before the slave has sent all messages.
    let channel = impostor.accept(&mut hero);
    channel.send(&Message::Hello(hello()), None).unwrap();
    assert!(matches!(receive(&mut hero, &channel), Ok((Message::Init(_), None))));
    channel.send(&Message::Connected { name: String::new() }, None).unwrap();
    assert!(matches!(receive(&mut hero, &channel), Err(Ended::Disconnected(_))));
    assert!(hero.rings.is_none());
}

#[test]
fn a_slave_survives_a_master_that_scribbles() {
    let config = config(Role::Slave);
    let mut hero = Hero::new(&config);
    let impostor = Impostor::listen(&config.socket);
    for jump in [false, true] {
        let channel = impostor.accept(&mut hero);
        channel.send(&Message::Hello(hello()), None).unwrap();
        let (mut memory, mut rings) = (None, Vec::new());
        loop {
            match receive(&mut hero, &channel).unwrap() {
                (Message::AddRegion { size, .. }, Some(file)) => {
                    memory = Some(Region::map(&file, size, false).unwrap());
                }
                (Message::AddRing(ring), Some(_)) => rings.push(ring),
                (Message::Connect { .. }, None) => break,
                (Message::Init(_), None) => {}
                other => panic!("{other:?}"),
            }
            channel.send(&Message::Ack, None).unwrap();
        }
        channel.send(&Message::Connected { name: String::new() }, None).unwrap();
        until("up", || {
            hero.service();
            hero.rings.is_some().then_some(())
        });
        assert_eq!(rings.len(), 2);
        assert_eq!(rings[0].log2_size, 6, "the master's limit");
        let memory = memory.unwrap();
        // All descriptors and buffers become 0xff, the indexes stay.
        for ring in &rings {
            let at = memory.at(u64::from(ring.offset) + 128, 16 * 64).unwrap();
            // SAFETY: 64 descriptors inside the mapping; the slave copes with any bytes.
            unsafe { std::ptr::write_bytes(at.as_ptr(), 0xff, 16 * 64) };
        }
        let m2s = rings.iter().find(|ring| !ring.s2m).unwrap();
        let tail = memory.at(u64::from(m2s.offset) + 64, 2).unwrap();
        // SAFETY: an aligned word inside the mapping.
        let tail = unsafe { AtomicU16::from_ptr(tail.as_ptr().cast()) };
        tail.store(if jump { 999 } else { 64 }, Ordering::Release);
        assert!(hero.receive().is_empty());
        if jump {
            assert!(hero.wait_down().contains("jumped"));
            break;
        }
        // The slave's own descriptors are right again, and it still sends.
        assert_eq!(hero.memif.left_out(), 1);
        assert_eq!(hero.send(60), 1);
        drop(channel);
        hero.wait_down();
    }
}
