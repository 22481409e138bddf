//! A client of the management server: HTTP/1.1 over TLS, one request per connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

pub const DEADLINE: Duration = Duration::from_secs(30);

/// A router with its own folder and HTTPS port; it ends on drop.
pub struct Router {
    pub folder: tempfile::TempDir,
    pub port: u16,
    child: Child,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, it)| it.trim())
    }

    /// The tag of the first error.
    pub fn tag(&self) -> String {
        let errors = self.json();
        let error = &errors["ietf-restconf:errors"]["error"][0];
        error["error-tag"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// An unused port.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Router {
    /// Starts a router with this configuration and these users.
    pub fn start(mut configuration: Value, users: Value) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        configuration["stoa-management:management"] = serde_json::json!({
            "https": { "address": ["127.0.0.1"], "port": port }, "user": users,
        });
        std::fs::write(folder.path().join("stoa.json"), configuration.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_stoa"))
            .arg("run")
            .args(["--config".into(), folder.path().join("stoa.json")])
            .args(["--socket".into(), folder.path().join("stoa.sock")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let router = Router { folder, port, child };
        router.wait("the router is in sync", || {
            let status = Command::new(env!("CARGO_BIN_EXE_stoa"))
                .args(["status", "--json", "--socket"])
                .arg(router.path("stoa.sock"))
                .output()
                .unwrap();
            let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
            status["in_sync"] == true
        });
        router.wait("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        router
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < DEADLINE, "never came true: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A connection that trusts only the server's certificate.
    pub fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        self.connect_over(TcpStream::connect(("127.0.0.1", self.port)).unwrap())
    }

    /// The same over an existing connection.
    pub fn connect_over(&self, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let certificate = self.path("stoa.state/https/certificate.pem");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        StreamOwned::new(connection, stream)
    }

    /// Sends a request as `user:password`, or without credentials.
    pub fn ask(
        &self,
        who: &str,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if !who.is_empty() {
            head.push_str(&format!("Authorization: Basic {}\r\n", STANDARD.encode(who)));
        }
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // A response is complete without TLS close_notify.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{method} {path}: {text:?}\n{}", self.log()));
        let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Answer { status, head: head.to_owned(), body }
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > after.len() {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}

impl Drop for Router {
    fn drop(&mut self) {
        // As an operator would; the processes end with their supervisor.
        let pid = self.child.id().to_string();
        let _ = Command::new("/bin/kill").args(["-TERM", &pid]).status();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hash of the password of all users.
pub fn hash() -> String {
    // Created by the program itself.
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
    command.args(["user", "hash"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
