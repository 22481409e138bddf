//! Messages to real sockets, parsed by the grammar of RFC 5424.

use std::io::Read;
use std::net::TcpListener;

use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::rfc5424::tests::read;

const DEADLINE: Duration = Duration::from_secs(20);

fn configured(destination: Destination, level: &str) -> v1::Syslog {
    v1::Syslog {
        name: "x".into(),
        facility: 16,
        level: level.into(),
        destination: Some(destination),
    }
}

/// Runs `write` with a log that sends to these destinations.
fn log(destinations: &[v1::Syslog], write: impl FnOnce()) -> Arc<Syslog> {
    let syslog = Arc::new(Syslog::new("stoa-test"));
    syslog.follow(destinations);
    let subscriber = tracing_subscriber::registry().with(SyslogLayer(Arc::clone(&syslog)));
    tracing::subscriber::with_default(subscriber, write);
    syslog
}

#[test]
fn datagrams_carry_one_message_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let unix = UnixDatagram::bind(&path).unwrap();
    unix.set_read_timeout(Some(DEADLINE)).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(DEADLINE)).unwrap();
    let to = [
        configured(Destination::Unix(path.display().to_string()), "warn"),
        configured(Destination::Udp(udp.local_addr().unwrap().to_string()), "debug"),
    ];
    let _log = log(&to, || {
        tracing::info!(port = "wan0", "link is up");
        tracing::warn!("link is down");
    });
    let mut bytes = [0; 4096];
    let text = |bytes: &[u8]| read(std::str::from_utf8(bytes).unwrap()).unwrap();
    let length = udp.recv(&mut bytes).unwrap();
    let (priority, header, pairs, message) = text(&bytes[..length]);
    assert_eq!((priority, message.as_str()), (16 * 8 + 6, "link is up"));
    assert_eq!(header[2], "stoa-test");
    assert_eq!(header[3], std::process::id().to_string());
    assert_eq!(pairs, [("port".to_owned(), "wan0".to_owned())]);
    let length = udp.recv(&mut bytes).unwrap();
    assert_eq!(text(&bytes[..length]).3, "link is down");
    let length = unix.recv(&mut bytes).unwrap();
    assert_eq!(text(&bytes[..length]).3, "link is down", "info is not for this one");
}

/// The next message of a stream, framed by its length.
fn frame_of(stream: &mut TcpStream) -> String {
    let mut length = 0;
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).unwrap();
        if byte[0] == b' ' {
            break;
        }
        length = length * 10 + usize::from(byte[0] - b'0');
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    read(std::str::from_utf8(&bytes).unwrap()).unwrap().3
}

#[test]
fn a_stream_frames_by_length_and_is_opened_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = [configured(Destination::Tcp(listener.local_addr().unwrap().to_string()), "info")];
    let syslog = log(&to, || {
        tracing::info!("first");
        tracing::info!("second, longer");
    });
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    assert_eq!(frame_of(&mut stream), "first");
    assert_eq!(frame_of(&mut stream), "second, longer");
    // Messages wait while the receiver is away.
    let address = listener.local_addr().unwrap();
    drop((stream, listener));
    let write = |text: &str| {
        let subscriber = tracing_subscriber::registry().with(SyslogLayer(Arc::clone(&syslog)));
        tracing::subscriber::with_default(subscriber, || tracing::info!("{text}"));
    };
    for number in 0..3 {
        write(&format!("away {number}"));
    }
    let listener = TcpListener::bind(address).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    for number in 0..3 {
        assert_eq!(frame_of(&mut stream), format!("away {number}"));
    }
    write("back");
    assert_eq!(frame_of(&mut stream), "back");
}

#[test]
fn the_next_message_reports_dropped_ones() {
    let (messages, waiting) = sync_channel(1);
    let configured = configured(Destination::Unix("/nowhere".into()), "info");
    let queue = DestinationQueue { configured, level: Level::INFO, messages, lost: Arc::default() };
    for number in 0..4 {
        queue.send(number.to_string());
    }
    assert_eq!(waiting.recv().unwrap(), "0");
    queue.send("4".into());
    assert_eq!(waiting.recv().unwrap(), "4 (3 messages before it were lost)");
    queue.send("5".into());
    assert_eq!(waiting.recv().unwrap(), "5");
}

#[test]
fn a_thread_ends_with_its_unreachable_destination() {
    let (messages, waiting) = sync_channel(4);
    let lost = Arc::new(AtomicU64::new(0));
    let missed = Arc::clone(&lost);
    let address = Address::Unix("/nowhere/log".into());
    let thread = std::thread::spawn(move || serve(&address, &waiting, &missed));
    messages.send("never received".into()).unwrap();
    drop((messages, lost));
    thread.join().unwrap();
}

#[test]
fn an_unreachable_destination_does_not_block() {
    let nowhere = configured(Destination::Unix("/nowhere/log".into()), "info");
    let wrong = configured(Destination::Udp("not an address".into()), "info");
    let begun = Instant::now();
    let syslog = log(&[nowhere, wrong], || {
        for number in 0..10_000 {
            tracing::info!(number, "to nobody");
        }
    });
    assert!(begun.elapsed() < DEADLINE);
    assert_eq!(syslog.destinations.read().unwrap().len(), 1, "an invalid address is ignored");
    syslog.follow(&[]);
    assert!(syslog.destinations.read().unwrap().is_empty());
}
