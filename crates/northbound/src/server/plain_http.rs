//! Plain HTTP on the port of HTTPS: the answer is the right address, instead of a connection that ends.
//!
//! The management server sends clients back to the host that they have named. The portal, whose clients nobody knows,
//! has one address ([`Home`]): no request in clear leads to another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum size of a request that is read, in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Time for a client to read the answer.
const LINGER: Duration = Duration::from_secs(1);

/// Gives the URL that all requests are answered with, for the local end of a connection; `None`: the answer has the
/// host and the path of the request.
pub(crate) type Home = Option<Arc<dyn Fn(SocketAddr) -> String + Send + Sync>>;

/// Whether the client begins with a request in clear. A TLS handshake begins with the byte 22.
pub async fn is_spoken(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1) if first[0].is_ascii_uppercase())
}

/// Answers one request with the address for HTTPS, and closes.
pub async fn answer(mut stream: TcpStream, home: &Home) {
    let Ok(local) = stream.local_addr() else { return };
    let head = head(&mut stream).await;
    let home = home.as_ref().map(|home| home(local));
    let response = response(&String::from_utf8_lossy(&head), local, home);
    if stream.write_all(response.as_bytes()).await.is_ok() && stream.shutdown().await.is_ok() {
        // What is left of the request: to close before it is read would discard the answer.
        let mut sink = tokio::io::sink();
        let drain = tokio::io::copy(&mut stream, &mut sink);
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// Reads the head of a request: at most [`HEAD_BYTES`]. Each read looks only at what is new.
async fn head(stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut stream = stream.take(HEAD_BYTES as u64);
    let mut head = Vec::new();
    loop {
        let from = head.len().saturating_sub(3);
        match stream.read_buf(&mut head).await {
            Ok(count) if count > 0 => {}
            _ => return head,
        }
        if head[from..].windows(4).any(|end| end == b"\r\n\r\n") {
            return head;
        }
    }
}

fn response(head: &str, local: SocketAddr, home: Option<String>) -> String {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let hosts = lines.filter_map(|line| line.split_once(':'));
    let host = hosts.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = host.map(|(_, host)| host.trim()).filter(|host| is_host(host));
    let path = if is_path(target) { target } else { "/" };
    let url = home.unwrap_or_else(|| format!("https://{}{path}", authority(host, local)));
    let body = format!("this port is for HTTPS: use {url}\n");
    let (status, location) = match method {
        "GET" | "HEAD" => ("308 Permanent Redirect", format!("Location: {url}\r\n")),
        _ => ("400 Bad Request", String::new()),
    };
    let shown = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\n{location}Content-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{shown}",
        body.len()
    )
}

/// Host and port of the client's own URL, or of the connection. Without a port, the client used that of HTTP.
fn authority(host: Option<&str>, local: SocketAddr) -> String {
    let ip = match local.ip().to_canonical() {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let host = host.unwrap_or(&ip);
    let has_port = host.rsplit_once(':').is_some_and(|(before, _)| {
        !before.contains(':') || before.starts_with('[') && before.ends_with(']')
    });
    match (has_port, local.port()) {
        (true, _) | (false, 443) => host.to_owned(),
        (false, port) => format!("{host}:{port}"),
    }
}

fn is_host(host: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    (1..=255).contains(&host.len()) && host.bytes().all(is_good)
}

fn is_path(target: &str) -> bool {
    // Two slashes would begin another host.
    target.starts_with('/')
        && !target.starts_with("//")
        && target.len() <= 2_048
        && target.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first_and_location(head: &str) -> (String, Option<String>) {
        let text = response(head, "192.0.2.1:8443".parse().unwrap(), None);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Connection: close"), "{head}");
        assert!(body.is_empty() || body.contains("use https://"), "{body}");
        let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
        (head.lines().next().unwrap().to_owned(), location.map(str::to_owned))
    }

    #[test]
    fn the_answer_has_the_right_address() {
        let location = |head: &str| first_and_location(head).1.unwrap();
        let get = "GET /restconf?x=1 HTTP/1.1\r\nhost: router:8443\r\n\r\n";
        assert_eq!(location(get), "https://router:8443/restconf?x=1");
        assert_eq!(first_and_location(get).0, "HTTP/1.1 308 Permanent Redirect");
        assert_eq!(location("HEAD / HTTP/1.1\r\nHost: router\r\n\r\n"), "https://router:8443/");
        let six = "GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n";
        assert_eq!(location(six), "https://[2001:db8::1]:8443/");
        assert_eq!(location("GET / HTTP/1.0\r\n\r\n"), "https://192.0.2.1:8443/");
        let post = first_and_location("POST /login HTTP/1.1\r\nHost: router\r\n\r\n");
        assert_eq!(post, ("HTTP/1.1 400 Bad Request".to_owned(), None));
        assert_eq!(first_and_location("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").1, None);
        // Neither another host nor a header field of the client's making.
        for odd in [
            "GET //evil.example/ HTTP/1.1\r\nHost: evil.example/\r\n\r\n",
            "GET http://evil.example/ HTTP/1.1\r\n\r\n",
            "GET /\r\nLocation:x HTTP/1.1\r\n\r\n",
            "GET /\u{7}<b> HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET",
        ] {
            assert_eq!(location(odd), "https://192.0.2.1:8443/", "{odd}");
        }
    }

    #[test]
    fn a_home_is_the_answer_whatever_a_request_names() {
        let local = "192.0.2.1:8444".parse().unwrap();
        for head in [
            "GET /a?b HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "HEAD http://evil.example/ HTTP/1.1\r\nHost: evil.example:8444\r\n\r\n",
            "GET",
        ] {
            let text = response(head, local, Some("https://portal.example.net:8444/".to_owned()));
            assert!(text.contains("Location: https://portal.example.net:8444/\r\n"), "{text}");
            assert!(!text.contains("evil"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_request_gets_one_answer_of_known_fields(
            head in "(GET|HEAD|POST) [/a-z:%?\\x00-\\x7f]{0,20}( HTTP/1.1)?(\r\n(Host: ?)?[\\x00-\\x7f]{0,20}){0,3}"
        ) {
            let text = response(&head, "[2001:db8::1]:8443".parse().unwrap(), None);
            let (fields, _) = text.split_once("\r\n\r\n").unwrap();
            let known = ["HTTP/1.1 ", "Location: https://", "Content-", "Cache-Control: no-store",
                "X-Content-Type-Options: nosniff", "Connection: close"];
            for line in fields.split("\r\n") {
                prop_assert!(known.iter().any(|known| line.starts_with(known)), "{:?}", line);
                prop_assert!(!line.contains(['\r', '\n', '\0']), "{:?}", line);
            }
        }
    }

    #[tokio::test]
    async fn a_head_ends_at_its_end_or_at_the_limit() {
        let whole = b"GET / HTTP/1.1\r\n\r\n";
        for split in 0..=whole.len() {
            let (first, second) = whole.split_at(split);
            assert_eq!(head(first.chain(second)).await, whole, "{split}");
        }
        let endless = tokio::io::repeat(b'A');
        assert_eq!(head(endless).await.len(), HEAD_BYTES);
    }

    #[tokio::test]
    async fn a_plain_request_differs_from_a_handshake() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (sent, is_plain) in [(&b"GET / HTTP/1.1\r\n\r\n"[..], true), (&[22, 3, 1][..], false)] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            client.write_all(sent).await.unwrap();
            assert_eq!(is_spoken(&server).await, is_plain);
            if is_plain {
                let (mut text, answered) = (
                    String::new(),
                    tokio::spawn(async move {
                        answer(server, &None).await;
                    }),
                );
                client.read_to_string(&mut text).await.unwrap();
                assert!(text.contains(&format!("Location: https://{address}/\r\n")), "{text}");
                drop(client);
                answered.await.unwrap();
            }
        }
    }
}
