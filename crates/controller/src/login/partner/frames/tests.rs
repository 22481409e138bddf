//! Both ends of a connection in this process.

use tokio::net::TcpListener;

use super::*;

async fn pair(secrets: [&str; 2]) -> [Result<Opened, Error>; 2] {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (one, other) = (one.unwrap(), other.unwrap().0);
    let (one, other) = tokio::join!(open(one, secrets[0], true), open(other, secrets[1], false));
    [one, other]
}

#[tokio::test]
async fn messages_come_in_order_in_as_many_frames_as_they_need() {
    let [one, other] = pair(["secret", "secret"]).await;
    let ((_, mut writer, _), (mut frames, _, _)) = (one.unwrap(), other.unwrap());
    let all: Vec<_> = (0..5_000).map(|ends| Message::Alive { ends }).collect();
    let sent = all.clone();
    let sending = async move {
        writer.send(sent).await.unwrap();
        writer
    };
    let receiving = async {
        let mut heard = Vec::new();
        let mut count = 0;
        while heard.len() < all.len() {
            heard.extend(frames.next().await.unwrap());
            count += 1;
        }
        (heard, count)
    };
    let (writer, (heard, count)) = tokio::join!(sending, receiving);
    assert_eq!(heard, all);
    assert!(count > 1);
    drop(writer);
}

#[tokio::test]
async fn another_secret_and_what_is_no_message_end_the_connection() {
    for ended in pair(["secret", "Secret"]).await {
        let ended = ended.err().unwrap();
        assert!(ended.is_refusal() && ended.to_string().contains("secret"), "{ended}");
    }
    for items in [&b"{"[..], b"{\"login\":{}}", b"\"unknown\"", b"\xff"] {
        let [one, other] = pair(["secret", "secret"]).await;
        let ((_, mut writer, _), (mut frames, _, _)) = (one.unwrap(), other.unwrap());
        let mut sealed = Vec::new();
        writer.sealer.seal(items, &mut sealed).unwrap();
        writer.sink.write_all(&sealed).await.unwrap();
        let ended = frames.next().await.unwrap_err();
        assert!(matches!(ended, Error::Malformed), "{ended}");
    }
}

#[tokio::test]
async fn other_protocols_are_refused() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    let mut one = one.unwrap();
    one.write_all(&[b'G'; HELLO]).await.unwrap();
    let ended = open(other.unwrap().0, "secret", false).await.err().unwrap();
    assert!(matches!(ended, Error::Refused(Refusal::Protocol)), "{ended}");
}
