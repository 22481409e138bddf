//! Logins with FreeRADIUS: rights by the groups of the response. Wrong passwords, forged responses and servers without
//! response refuse the login; local users can always log in.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, LabError, Result, Router, Scratch, Tool, stoa_binary, wait_until,
};

const DEADLINE: Duration = Duration::from_secs(40);
const SECRET: &str = "long and random";

/// FreeRADIUS with its own users and port. Dropping it ends it.
struct Server {
    process: Background,
    _scratch: Scratch,
    port: u16,
}

impl Server {
    fn start(port: u16) -> Result<Self> {
        let scratch = Scratch::new()?;
        let users = scratch.write(
            "users",
            "ann Cleartext-Password := \"correct horse\"\n\
             \tManagement-Policy-Id = \"noc\"\n\n\
             carl Cleartext-Password := \"battery staple\"\n\
             \tManagement-Policy-Id = \"others\"\n\n\
             root-of-radius Cleartext-Password := \"all of it\"\n\
             \tService-Type = Administrative-User\n\n\
             local Cleartext-Password := \"what RADIUS says\"\n",
        )?;
        let folder = scratch.path().display();
        // Debian's 3.2.1 sends Message-Authenticator only if configured.
        let authenticator = "  update reply {\n   Message-Authenticator := 0x00\n  }\n";
        let text = format!(
            "prefix = /usr\nlogdir = {folder}\nrun_dir = {folder}\npidfile = {folder}/pid\n\
             libdir = /usr/lib/freeradius\nmax_request_time = 5\ncleanup_delay = 1\n\
             client router {{\n ipaddr = 127.0.0.1\n secret = \"{SECRET}\"\n \
               require_message_authenticator = yes\n}}\n\
             modules {{\n pap {{\n }}\n files {{\n  filename = {}\n }}\n}}\n\
             server default {{\n \
               listen {{\n  type = auth\n  ipaddr = 127.0.0.1\n  port = {port}\n }}\n \
               authorize {{\n  files\n  pap\n }}\n \
               authenticate {{\n  Auth-Type PAP {{\n   pap\n  }}\n }}\n \
               post-auth {{\n{authenticator}  Post-Auth-Type REJECT {{\n{authenticator}  }}\n }}\n}}\n",
            users.display(),
        );
        scratch.write("radiusd.conf", text)?;
        let folder = scratch.path().display().to_string();
        let process = Command::tool(Tool::FREERADIUS)?
            .args(["-X", "-d", &folder, "-n", "radiusd"])
            .spawn()?;
        process.wait_for("Ready to process requests", DEADLINE)?;
        Ok(Self { process, _scratch: scratch, port })
    }
}

fn system(what: &str) -> impl FnOnce(std::io::Error) -> LabError {
    let what = what.to_owned();
    |error| LabError::system(what, error)
}

/// A free UDP port.
fn free_port() -> Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(system("a free port"))?;
    Ok(socket.local_addr().map_err(system("its address"))?.port())
}

/// A server that sends Access-Accept without the secret; its port and its count of requests.
fn forging_server() -> Result<(u16, Arc<AtomicUsize>)> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(system("a port"))?;
    let port = socket.local_addr().map_err(system("its address"))?.port();
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    // It ends with the test.
    std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok((_, from)) = socket.recv_from(&mut bytes) {
            count.fetch_add(1, Ordering::Relaxed);
            let mut answer = [0x5a; 20];
            answer[..4].copy_from_slice(&[2, bytes[1], 0, 20]);
            let _ = socket.send_to(&answer, from);
        }
    });
    Ok((port, requests))
}

struct Testbed {
    router: Router,
    https: u16,
    hash: String,
}

fn configuration(https: u16, hash: &str, servers: &[(&str, u16, &str)]) -> Value {
    let servers = servers.iter().map(|(name, port, secret)| {
        json!({ "name": name, "address": "127.0.0.1", "port": port, "shared-secret": secret })
    });
    json!({
        "ietf-interfaces:interfaces": { "interface": [{
            "name": "lan", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
        }] },
        "stoa-management:management": {
            "https": { "port": https },
            "radius": {
                "server": servers.collect::<Vec<_>>(), "timeout": 1, "attempts": 2,
                "administrators": true,
            },
            "user": [{ "name": "local", "password-hash": hash, "admin": true }],
        },
        "ietf-netconf-acm:nacm": { "rule-list": [{ "name": "noc", "group": ["noc"], "rule": [{
            "name": "texts", "module-name": "ietf-interfaces", "access-operations": "*",
            "action": "permit", "path": "/ietf-interfaces:interfaces/interface/description",
        }] }] },
    })
}

impl Testbed {
    fn start(servers: &[(&str, u16, &str)]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(system("a free port"))?;
        let https = listener.local_addr().map_err(system("its address"))?.port();
        drop(listener);
        let hash = Command::program(stoa_binary()?).args(["user", "hash"]);
        let hash = hash.input("what the router says\n").run()?.ok()?.stdout.trim().to_owned();
        let router = Router::start(&stoa_binary()?, None, &configuration(https, &hash, servers))?;
        let testbed = Self { router, https, hash };
        wait_until("the server listens", DEADLINE, || match testbed.whoami("", "") {
            Ok((401, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        })?;
        Ok(testbed)
    }

    fn servers(&self, servers: &[(&str, u16, &str)]) -> Result<()> {
        self.router.reload(&configuration(self.https, &self.hash, servers))?.ok()?;
        Ok(())
    }

    /// Status and body of a request with curl.
    fn curl(&self, user: &str, password: &str, path: &str, more: &[&str]) -> Result<(u16, String)> {
        let url = format!("https://localhost:{}{path}", self.https);
        let certificate = self.router.scratch().file("stoa.state/https/certificate.pem");
        let certificate = certificate.display().to_string();
        let mut command = Command::tool(Tool::CURL)?
            .args(["--silent", "--max-time", "30", "--cacert", &certificate])
            .args(["--write-out", "\n%{http_code}", &url])
            .args(more);
        if !user.is_empty() {
            command = command.args(["--user", &format!("{user}:{password}")]);
        }
        let printed = command.run()?.stdout;
        let (body, status) = printed.rsplit_once('\n').unwrap_or_default();
        Ok((status.parse().unwrap_or(0), body.to_owned()))
    }

    fn whoami(&self, user: &str, password: &str) -> Result<(u16, Value)> {
        let (status, body) = self.curl(user, password, "/whoami", &[])?;
        Ok((status, serde_json::from_str(&body).unwrap_or_default()))
    }

    fn status(&self, user: &str, password: &str) -> Result<u16> {
        Ok(self.whoami(user, password)?.0)
    }

    /// The status of a change of a description.
    fn changes(&self, user: &str, password: &str) -> Result<u16> {
        let path = "/restconf/data/ietf-interfaces:interfaces/interface=lan/description";
        let body = format!("{{\"ietf-interfaces:description\": \"by {user}\"}}");
        let kind = "Content-Type: application/yang-data+json";
        Ok(self.curl(user, password, path, &["-X", "PUT", "-H", kind, "-d", &body])?.0)
    }
}

#[test]
fn freeradius_authenticates_users_and_returns_their_groups() -> Result<()> {
    let server = Server::start(free_port()?)?;
    // A socket without a reader: a server that does not answer.
    let dead = UdpSocket::bind("127.0.0.1:0").map_err(system("a port"))?;
    let dead_port = dead.local_addr().map_err(system("its address"))?.port();
    let testbed = Testbed::start(&[("dead", dead_port, SECRET), ("next", server.port, SECRET)])?;

    let (status, ann) = testbed.whoami("ann", "correct horse")?;
    assert_eq!(status, 200, "{ann}\n{}", server.process.log());
    assert_eq!((&ann["groups"], &ann["admin"]), (&json!(["noc"]), &json!(false)));
    assert!(testbed.router.log().contains("RADIUS server does not answer"), "the first server");
    assert_eq!(testbed.changes("ann", "correct horse")?, 201, "her group may write");
    assert_eq!(testbed.changes("carl", "battery staple")?, 403, "his group may not");
    let (status, root) = testbed.whoami("root-of-radius", "all of it")?;
    assert_eq!((status, &root["admin"]), (200, &json!(true)));

    assert_eq!(testbed.status("ann", "wrong horse")?, 401);
    assert_eq!(testbed.status("nobody", "correct horse")?, 401);
    assert_eq!(testbed.status("local", "what RADIUS says")?, 401, "local users take precedence");
    assert_eq!(testbed.status("local", "what the router says")?, 200);
    let log = server.process.log();
    assert!(!log.contains("User-Name = \"local\""), "no request for local users:\n{log}");
    // The history contains the authenticated name.
    let history = testbed.router.call(&["show", "history"])?.ok()?.stdout;
    assert!(history.contains("ann"), "{history}");
    testbed.router.stop()
}

#[test]
fn forged_and_missing_answers_refuse_the_login() -> Result<()> {
    let (forger, requests) = forging_server()?;
    let testbed = Testbed::start(&[("forger", forger, SECRET)])?;
    assert_eq!(testbed.status("ann", "correct horse")?, 503);
    assert_eq!(requests.load(Ordering::Relaxed), 2, "two attempts, none accepted");
    assert!(
        testbed.router.log().contains("discarded a response of a RADIUS server"),
        "{}",
        testbed.router.log()
    );
    assert_eq!(testbed.status("local", "what the router says")?, 200);

    let port = free_port()?;
    let server = Server::start(port)?;
    testbed.servers(&[("radius", port, "another secret")])?;
    assert_eq!(testbed.status("ann", "correct horse")?, 503, "{}", server.process.log());
    // A missing response does not count as a wrong password for the lockout.
    testbed.servers(&[("radius", port, SECRET)])?;
    assert_eq!(testbed.status("ann", "correct horse")?, 200, "{}", server.process.log());
    drop(server);
    assert_eq!(testbed.status("carl", "battery staple")?, 503);
    assert_eq!(testbed.status("local", "what the router says")?, 200);
    let _server = Server::start(port)?;
    assert_eq!(testbed.status("carl", "battery staple")?, 200, "{}", testbed.router.log());
    testbed.router.stop()
}
