//! `af-xdp`: frames both ways, tags, what the far Linux leaves undone, several queues, changes
//! of the device and its namespace, and `auto`.

use stoa_engine::Refused;
use stoa_lab::Namespace;
use stoa_ports::{AfXdpConfig, AutoConfig, OpenError, PortConfig, XdpAttach, XdpBind};

use crate::af_packet::{self, both_ways};
use crate::offload::super_frames_become_packets;
use crate::peer::{Raw, checked, is_plain, plain};
use crate::side::{Side, join, namespaces};

const NO: [u8; 10] = [0; 10];

fn xdp_config(namespace: &Namespace, device: &str) -> AfXdpConfig {
    let netns = Some(namespace.name().into());
    AfXdpConfig { device: device.into(), netns, ..AfXdpConfig::default() }
}

pub(crate) fn config(namespace: &Namespace, device: &str) -> PortConfig {
    PortConfig::AfXdp(xdp_config(namespace, device))
}

/// Joins the namespaces by a veth pair with so many queues at each end.
fn join_with_queues([near, far]: &[Namespace; 2], queues: &str) {
    let ends = ["numrxqueues", queues, "numtxqueues", queues];
    let far_end = ["peer", "name", "far0", "netns", far.name()];
    let link = ["link", "add", "near0"];
    let made = [&link[..], &ends, &["type", "veth"], &far_end, &ends].concat();
    near.ip(&made).expect("a veth pair");
    for (namespace, device) in [(near, "near0"), (far, "far0")] {
        namespace.sysctl(&format!("ipv6/conf/{device}/disable_ipv6"), "1").expect("quiet");
        namespace.ip(&["link", "set", device, "up"]).expect("up");
    }
}

#[test]
fn frames_go_both_ways_with_their_tags() {
    for attach in [XdpAttach::Native, XdpAttach::Generic] {
        let Some(spaces) = namespaces("frames_go_both_ways_with_their_tags") else { return };
        join(&spaces);
        let open = |at: usize, device| {
            Side::open(&PortConfig::AfXdp(AfXdpConfig {
                attach,
                ..xdp_config(&spaces[at], device)
            }))
        };
        both_ways(open(0, "near0"), open(1, "far0"));
    }
}

#[test]
fn super_frames_of_the_far_linux_come_as_packets() {
    let Some(spaces) = namespaces("super_frames_of_the_far_linux") else { return };
    join(&spaces);
    let near = Side::open(&config(&spaces[0], "near0"));
    super_frames_become_packets(near, &Raw::new(&spaces[1], "far0"));
}

#[test]
fn checksums_that_the_far_linux_left_unfinished_are_finished() {
    for attach in [XdpAttach::Native, XdpAttach::Generic] {
        let Some(spaces) = namespaces("checksums_are_finished") else { return };
        join(&spaces);
        let config = AfXdpConfig { attach, ..xdp_config(&spaces[0], "near0") };
        let mut near = Side::open(&PortConfig::AfXdp(config));
        spaces[1].ip(&["addr", "add", "198.18.0.2/24", "dev", "far0"]).expect("an address");
        let mac = "02:00:00:00:00:01";
        let neighbor = ["neigh", "add", "198.18.0.1", "lladdr", mac, "dev", "far0"];
        spaces[1].ip(&neighbor).expect("a neighbour");
        spaces[1]
            .enter(|| {
                let socket = std::net::UdpSocket::bind("198.18.0.2:0").expect("a socket");
                socket.send_to(&[7; 777], "198.18.0.1:9").expect("sent");
            })
            .expect("inside");
        let got = near.receive(1, |frame| frame[12..14] == [8, 0] && frame[23] == 17);
        assert_eq!(checked(&got[0])[8..], [7; 777]);
    }
}

#[test]
fn several_queues_share_the_frames() {
    let Some(spaces) = namespaces("several_queues_share_the_frames") else { return };
    join_with_queues(&spaces, "4");
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let mut far = Side::open(&config(&spaces[1], "far0"));
    assert_eq!((near.queues.rx.len(), near.queues.tx.len()), (4, 4));
    // Queue by queue: what goes by one of theirs comes by the same one of ours.
    for queue in 0..4 {
        assert_eq!(far.send(&[plain(queue, &[], 60)]), 1);
        assert_eq!(near.receive(1, is_plain), [plain(queue, &[], 60)]);
        far.queues.tx.rotate_left(1);
    }
    drop(near);
    // Frames of a queue that is not ours go to Linux.
    let two = AfXdpConfig { queues: 2, ..xdp_config(&spaces[0], "near0") };
    let mut near = Side::open(&PortConfig::AfXdp(two));
    assert_eq!(near.queues.rx.len(), 2);
    let detail = near.port.detail();
    assert!(detail.contains("2 of 4 queues") && detail.contains("native"), "{detail}");
    let mut linux = Side::open(&af_packet::config(&spaces[0], "near0"));
    for queue in 0..4 {
        assert_eq!(far.send(&[plain(queue, &[], 60)]), 1);
        far.queues.tx.rotate_left(1);
        let side = if queue < 2 { &mut near } else { &mut linux };
        assert_eq!(side.receive(1, is_plain), [plain(queue, &[], 60)]);
    }
}

#[test]
fn too_few_queues_for_the_peer_leave_the_generic_way() {
    let Some(spaces) = namespaces("too_few_queues_for_the_peer") else { return };
    join_with_queues(&spaces, "4");
    // The driver attaches natively only with a queue for each of the peer's.
    let ethtool = spaces[0].command(stoa_lab::Tool::ETHTOOL).expect("ethtool");
    ethtool.args(["-L", "near0", "rx", "1"]).run().expect("run").ok().expect("one queue");
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let detail = near.port.detail();
    assert!(detail.contains("generic attach (native:"), "{detail}");
    assert!(detail.contains("super-frames are lost"), "{detail}");
    Raw::new(&spaces[1], "far0").send(NO, &plain(1, &[], 60));
    near.receive(1, is_plain);
    // Where that is not good enough it is refused, and allowed when there are queues again.
    let native = PortConfig::AfXdp(AfXdpConfig {
        attach: XdpAttach::Native,
        ..xdp_config(&spaces[0], "near0")
    });
    let pool = near.pool.pool();
    match stoa_ports::open(&native, pool).err() {
        Some(OpenError::Unsupported { field, reason }) => {
            assert!(field == "attach" && reason.contains("ethtool -L near0 rx"), "{reason}");
        }
        Some(error) => panic!("{error}"),
        // Linux before 6.3 reports it only when a program is attached.
        None => return,
    }
    drop(near);
    let ethtool = spaces[0].command(stoa_lab::Tool::ETHTOOL).expect("ethtool");
    ethtool.args(["-L", "near0", "rx", "4"]).run().expect("run").ok().expect("four queues");
    let near = Side::open(&native);
    assert!(near.port.detail().contains("native attach"), "{}", near.port.detail());
}

#[test]
fn the_port_follows_device_and_link() {
    let Some(spaces) = namespaces("the_port_follows_device_and_link") else { return };
    join(&spaces);
    let [near_space, far_space] = &spaces;
    let mut near = Side::open(&config(near_space, "near0"));
    let receives = |near: &mut Side, number| {
        Raw::new(far_space, "far0").send(NO, &plain(number, &[], 60));
        assert_eq!(near.receive(1, is_plain), [plain(number, &[], 60)]);
    };
    let reports = |near: &mut Side, what: &str| {
        let reason = near.until_down();
        assert!(reason.contains(what), "{reason}");
        assert!(near.port.service().is_empty(), "reported once");
    };
    receives(&mut near, 1);
    for (space, device, what) in
        [(near_space, "near0", "near0 is down"), (far_space, "far0", "no carrier")]
    {
        space.ip(&["link", "set", device, "down"]).expect("down");
        reports(&mut near, what);
        space.ip(&["link", "set", device, "up"]).expect("up");
        near.until_up();
        receives(&mut near, 2);
    }
    near_space.ip(&["link", "set", "near0", "down"]).expect("down");
    near_space.ip(&["link", "set", "near0", "name", "other"]).expect("renamed");
    near.until_down();
    near_space.ip(&["link", "set", "other", "name", "near0"]).expect("renamed");
    near_space.ip(&["link", "set", "near0", "up"]).expect("up");
    near.until_up();
    receives(&mut near, 3);
    near_space.ip(&["link", "delete", "near0"]).expect("deleted");
    assert!(near.receive_now().is_empty());
    reports(&mut near, "gone");
    join(&spaces);
    near.until_up();
    receives(&mut near, 4);
    // Longer frames need other memory.
    near_space.ip(&["link", "set", "near0", "mtu", "3000"]).expect("mtu");
    assert!(near.until_down().contains("has changed"));
    near.until_up();
    receives(&mut near, 5);
}

/// A namespace whose name is deleted is released, so that it ends; one of the same name is
/// another one.
#[test]
fn a_namespace_that_is_made_anew_is_found() {
    for xdp in [true, false] {
        let Some([near_space, far_space]) = namespaces("a_namespace_made_anew") else { return };
        let spaces = [near_space, far_space];
        join(&spaces);
        let kind = if xdp { config } else { af_packet::config };
        let mut near = Side::open(&kind(&spaces[0], "near0"));
        let name = spaces[0].name().to_owned();
        let ip = |arguments: &[&str]| {
            let done = std::process::Command::new("ip").args(arguments).status();
            assert!(done.expect("ip").success(), "ip {arguments:?}");
        };
        ip(&["netns", "delete", &name]);
        let reason = near.until_down();
        assert!(reason.contains("namespace") && reason.contains("gone"), "{reason}");
        // The namespace ends, and its end of the pair takes the other one with it.
        crate::side::until("the link is gone", || spaces[1].ip(&["link", "show", "far0"]).is_err());
        ip(&["netns", "add", &name]);
        join(&spaces);
        near.until_up();
        Raw::new(&spaces[1], "far0").send(NO, &plain(1, &[], 60));
        near.receive(1, is_plain);
    }
}

#[test]
fn nothing_is_left_on_the_device() {
    let Some(spaces) = namespaces("nothing_is_left_on_the_device") else { return };
    join(&spaces);
    let shows = || spaces[0].ip(&["link", "show", "near0"]).expect("shown").contains("xdp");
    let near = Side::open(&config(&spaces[0], "near0"));
    assert!(shows());
    // A second one reports the program that holds it.
    let pool = near.pool.pool();
    let mut second = stoa_ports::open(&config(&spaces[0], "near0"), pool).expect("opened");
    let reason: Vec<_> = second.service().into_iter().collect();
    let [stoa_engine::PortEvent::Down(reason)] = &reason[..] else { panic!("it must stay down") };
    assert!(reason.contains("another XDP program"), "{reason}");
    drop((second, near));
    assert!(!shows());
}

/// What was switched is switched back on the device itself, whatever its name is by then.
#[test]
fn tags_are_given_back_to_a_renamed_device() {
    let Some(spaces) = namespaces("tags_are_given_back") else { return };
    join(&spaces);
    let ethtool = |arguments: &[&str]| {
        let ethtool = spaces[0].command(stoa_lab::Tool::ETHTOOL).expect("ethtool");
        ethtool.args(arguments).run().expect("run").ok().expect("done").stdout
    };
    let strips = |device: &str| ethtool(&["-k", device]).contains("rx-vlan-offload: on");
    assert!(strips("near0"));
    let mut near = Side::open(&config(&spaces[0], "near0"));
    assert!(!strips("near0"));
    spaces[0].ip(&["link", "set", "near0", "down"]).expect("down");
    spaces[0].ip(&["link", "set", "near0", "name", "other"]).expect("renamed");
    // Another program's device has the name now, and stays as it is.
    let stranger = ["link", "add", "near0", "type", "veth", "peer", "name", "stranger"];
    spaces[0].ip(&stranger).expect("a veth pair");
    ethtool(&["-K", "near0", "rxvlan", "off"]);
    near.until_down();
    drop(near);
    assert!(strips("other"), "given back");
    assert!(!strips("near0"), "not touched");
}

#[test]
fn what_the_device_does_not_take_is_reported() {
    let Some(spaces) = namespaces("what_the_device_does_not_take") else { return };
    join(&spaces);
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let mut far = Side::open(&config(&spaces[1], "far0"));
    let frames = [plain(1, &[], 60), plain(2, &[], 2000), plain(3, &[], 60), plain(4, &[], 10)];
    assert_eq!(near.send(&frames), 4);
    assert_eq!(near.marked, [1, 3]);
    assert_eq!(near.queues.tx[0].refused(), Refused { packets: 2, bytes: 2010 });
    assert_eq!(near.queues.tx[0].refused(), Refused::default(), "reported once");
    assert_eq!(far.receive(2, is_plain), [frames[0].clone(), frames[2].clone()]);
    assert!(near.port.detail().contains("2 frames refused"), "{}", near.port.detail());
}

#[test]
fn overload_is_shed_by_the_kernel_and_counted() {
    let Some(spaces) = namespaces("overload_is_shed_by_the_kernel") else { return };
    join(&spaces);
    let mut near = Side::open(&config(&spaces[0], "near0"));
    let raw = Raw::new(&spaces[1], "far0");
    let sent = 5000;
    for number in 0..sent {
        raw.send(NO, &plain(number, &[], 60));
    }
    let mut got = 0;
    crate::side::until("each frame is received or counted", || {
        got += near.receive_now().len() as u64;
        got + near.port.missed() >= sent.into()
    });
    assert_eq!((got, got + near.port.missed()), (2048, sent.into()));
}

#[test]
fn what_is_wrong_is_reported() {
    let Some(spaces) = namespaces("what_is_wrong_is_reported") else { return };
    join(&spaces);
    let pool = stoa_engine::Pool::leak(512, stoa_engine::pool::HugePages::Never).expect("memory");
    let error = stoa_ports::open(&config(&spaces[0], "none0"), pool).err().expect("refused");
    assert!(matches!(error, OpenError::NoDevice { .. }), "{error}");
    let wrong = AfXdpConfig { bind: XdpBind::ZeroCopy, ..xdp_config(&spaces[0], "near0") };
    match stoa_ports::open(&PortConfig::AfXdp(wrong), pool) {
        Err(OpenError::Unsupported { field, .. }) => assert_eq!(field, "bind"),
        Err(error) => panic!("{error}"),
        // Linux before 6.3 reports it only when a program is attached.
        Ok(mut port) => {
            let events = port.service();
            let [stoa_engine::PortEvent::Down(reason)] = &events[..] else { panic!("not down") };
            assert!(reason.contains("bind copy"), "{reason}");
        }
    }
}

#[test]
fn a_virtual_device_gets_a_packet_socket_by_itself() {
    let Some(spaces) = namespaces("a_virtual_device_gets_a_packet_socket") else { return };
    join(&spaces);
    let netns = Some(spaces[0].name().into());
    let auto = AutoConfig { device: "near0".into(), netns, ..AutoConfig::default() };
    let mut near = Side::open(&PortConfig::Auto(auto));
    assert_eq!(near.port.driver(), "af-packet");
    let detail = near.port.detail();
    assert!(detail.contains("auto: af-packet because veth is virtual"), "{detail}");
    spaces[0].ip(&["link", "delete", "near0"]).expect("deleted");
    assert!(near.until_down().contains("gone"));
    join(&spaces);
    near.until_up();
    Raw::new(&spaces[1], "far0").send(NO, &plain(1, &[], 60));
    near.receive(1, is_plain);
}
