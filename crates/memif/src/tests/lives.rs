//! Links that come and go: any number of times, at any step, in any order, and as the
//! operator sets it.

use super::*;

/// Services both until both are up.
fn join(one: &mut Hero, other: &mut Hero) {
    until("both are up", || {
        one.service();
        other.service();
        (one.rings.is_some() && other.rings.is_some()).then_some(())
    });
    (one.down, other.down) = (None, None);
}

fn pass_frames(from: &mut Hero, to: &mut Hero) {
    until("a frame", || {
        from.send(60);
        (!to.receive().is_empty()).then_some(())
    });
}

fn master_and_slave() -> [Config; 2] {
    let master = config(Role::Master);
    let slave = Config { role: Role::Slave, ..master.clone() };
    [master, slave]
}

#[test]
fn either_side_is_born_again_and_again() {
    let [master, slave] = master_and_slave();
    // The slave starts first, and waits for its master.
    let mut alone = Hero::new(&slave);
    alone.service();
    assert!(alone.memif.detail().contains("waits for a master"), "{}", alone.memif.detail());
    let mut pair = [Hero::new(&master), alone];
    for dies in [0, 1, 0, 0, 1, 1] {
        let [one, other] = &mut pair;
        join(one, other);
        pass_frames(one, other);
        pass_frames(other, one);
        let config = if dies == 0 { &master } else { &slave };
        // The old one lets go of the socket before the new one takes it.
        let survivor = 1 - dies;
        pair[dies].memif = Memif::open(&slave).unwrap();
        pair[dies].rings = None;
        pair[survivor].wait_down();
        pair[dies] = Hero::new(config);
    }
}

/// The bytes of a frame of this length.
fn bytes_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256 + length) as u8).collect()
}

#[test]
fn frames_of_all_lengths_arrive_byte_for_byte() {
    let [master, slave] = master_and_slave();
    let (mut master, mut slave) = (Hero::new(&master), Hero::new(&slave));
    join(&mut master, &mut slave);
    // All that are copied in a way of their own, and some that are not.
    let lengths: Vec<_> = (1..=600).chain([1500, 2047, 2048]).collect();
    for (from, to) in [(0, 1), (1, 0)] {
        let heroes = [&mut master, &mut slave].map(|hero| hero.rings.as_mut().unwrap());
        for lengths in lengths.chunks(50) {
            let mut batch = heroes[from].senders[0].batch();
            lengths.iter().for_each(|length| assert_eq!(batch.put(&bytes_of(*length)), Ok(())));
            drop(batch);
            let mut left = lengths.iter();
            let count = heroes[to].receivers[0].receive(|frame| {
                let length = *left.next().unwrap();
                assert_eq!(frame, bytes_of(length), "{length} bytes");
            });
            assert_eq!(count, lengths.len());
        }
    }
}

#[test]
fn the_operator_sets_it_down_and_up() {
    let [master, slave] = master_and_slave();
    let (mut master, mut slave) = (Hero::new(&master), Hero::new(&slave));
    for master_rests in [true, false] {
        join(&mut master, &mut slave);
        let (rests, other) =
            if master_rests { (&mut master, &mut slave) } else { (&mut slave, &mut master) };
        rests.memif.set_enabled(false);
        assert_eq!(rests.wait_down(), "the interface is disabled");
        assert_eq!(other.wait_down(), "the peer ended the link: the interface is disabled");
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(700) {
            rests.service();
            other.service();
            assert!(rests.rings.is_none() && other.rings.is_none());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(rests.memif.detail(), "the interface is disabled");
        rests.memif.set_enabled(true);
        join(&mut master, &mut slave);
        pass_frames(&mut master, &mut slave);
    }
}

#[test]
fn death_at_every_step_disturbs_nobody() {
    let mut hero = Hero::new(&config(Role::Master));
    for steps in 0..=5 {
        let villain = Villain::meet(&mut hero);
        let region = Message::AddRegion { index: 0, size: MEMORY };
        let bells = [doorbell(), doorbell()];
        let connect = Message::Connect { name: "villain".into() };
        let talk = [
            (init(), None),
            (region, Some(&villain.file)),
            (ring(true), Some(&bells[0])),
            (ring(false), Some(&bells[1])),
            (connect, None),
        ];
        for (message, file) in &talk[..steps] {
            villain.exchange(&mut hero, message, *file).unwrap();
        }
        // It dies, and the next one is served at once.
        drop(villain);
        let next = Villain::meet(&mut hero);
        until("the dead one is forgotten", || {
            hero.service();
            matches!(hero.memif.state, crate::endpoint::State::Alone(_)).then_some(())
        });
        next.complete_handshake(&mut hero);
        drop(next);
        hero.wait_down();
    }
}

#[test]
fn a_doorbell_that_would_block_holds_nobody_up() {
    let mut hero = Hero::new(&config(Role::Master));
    let villain = Villain::meet(&mut hero);
    let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
    let shared = || event.as_fd().try_clone_to_owned().unwrap();
    villain.exchange(&mut hero, &init(), None).unwrap();
    let region = Message::AddRegion { index: 0, size: MEMORY };
    villain.exchange(&mut hero, &region, Some(&villain.file)).unwrap();
    for s2m in [true, false] {
        villain.exchange(&mut hero, &ring(s2m), Some(&shared())).unwrap();
    }
    villain.exchange(&mut hero, &Message::Connect { name: String::new() }, None).unwrap();
    until("up", || {
        hero.service();
        hero.rings.is_some().then_some(())
    });
    // The attack: it clears the flag that we set, and fills the counter.
    nix::fcntl::fcntl(&event, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
    event.write(u64::MAX - 1).unwrap();
    villain.head(M2S).store(SIZE, Ordering::Release);
    let start = Instant::now();
    for sent in 1..=SIZE {
        assert_eq!(hero.send(60), 1, "the villain enabled interrupts");
        assert_eq!(villain.tail(M2S).load(Ordering::Acquire), sent);
    }
    let rx = &mut hero.rings.as_mut().unwrap().receivers[0];
    for _ in 0..100 {
        let _ = rx.doze();
        rx.wake();
    }
    assert!(start.elapsed() < DEADLINE / 2);
}
