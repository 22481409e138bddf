//! Login of hosts: a user in a browser, RADIUS with accounting, forged requests, both families, and restarts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Background, Command, Configuration, Host, Namespace, Result, Router, Scratch, Tool, Topology,
    stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, browser, two_sides};

const DEADLINE: Duration = Duration::from_secs(40);
const SECRET: &str = "long and random";
const PORTAL: &str = "https://198.18.1.1:8444/";
const PORTAL6: &str = "https://[2001:db8:1::1]:8444/";
const SITE: &str = "http://198.18.2.2/";
const SITE6: &str = "http://[2001:db8:2::2]/";

/// FreeRADIUS beside the router. Dropping it ends it.
struct Radius {
    process: Background,
    _scratch: Scratch,
}

impl Radius {
    fn start(namespace: &Namespace) -> Result<Self> {
        let scratch = Scratch::new()?;
        let users = scratch.write(
            "users",
            "rad Cleartext-Password := \"battery staple\"\n\
             \tSession-Timeout = 777,\n\
             \tIdle-Timeout = 333,\n\
             \tClass = \"gold\"\n",
        )?;
        let folder = scratch.path().display();
        // Debian's 3.2.1 sends Message-Authenticator only if configured.
        let authenticator = "  update reply {\n   Message-Authenticator := 0x00\n  }\n";
        let text = format!(
            "prefix = /usr\nlogdir = {folder}\nrun_dir = {folder}\npidfile = {folder}/pid\n\
             libdir = /usr/lib/freeradius\nmax_request_time = 5\ncleanup_delay = 1\n\
             client router {{\n ipaddr = 127.0.0.1\n secret = \"{SECRET}\"\n \
               require_message_authenticator = yes\n}}\n\
             modules {{\n pap {{\n }}\n always ok {{\n  rcode = ok\n }}\n \
               files {{\n  filename = {}\n }}\n}}\n\
             server default {{\n \
               listen {{\n  type = auth\n  ipaddr = 127.0.0.1\n  port = 1812\n }}\n \
               listen {{\n  type = acct\n  ipaddr = 127.0.0.1\n  port = 1813\n }}\n \
               authorize {{\n  files\n  pap\n }}\n \
               authenticate {{\n  Auth-Type PAP {{\n   pap\n  }}\n }}\n \
               accounting {{\n  ok\n }}\n \
               post-auth {{\n{authenticator}  Post-Auth-Type REJECT {{\n{authenticator}  }}\n }}\n}}\n",
            users.display(),
        );
        scratch.write("radiusd.conf", text)?;
        let folder = scratch.path().display().to_string();
        let process = namespace
            .command(Tool::FREERADIUS)?
            .args(["-X", "-d", &folder, "-n", "radiusd"])
            .spawn()?;
        process.wait_for("Ready to process requests", DEADLINE)?;
        Ok(Self { process, _scratch: scratch })
    }

    /// Waits until the log has all of these.
    fn wait_for(&self, all: &[&str]) -> Result<()> {
        wait_until("accounting arrives", DEADLINE, || {
            let log = self.process.log();
            match all.iter().find(|it| !log.contains(**it)) {
                None => Ok(()),
                Some(missing) => Err(format!("{missing}: {log}")),
            }
        })
    }
}

/// host-a has to log in; host-b is a web site.
struct Lab {
    scenario: Scenario,
    radius: Radius,
    _site: Vec<Background>,
}

/// A web server of a family at port 80.
fn serve(host: &Host, address: &str) -> Result<Background> {
    let program = "\
        import http.server, socket, sys\n\
        class Answer(http.server.BaseHTTPRequestHandler):\n\
        \x20   def do_GET(self):\n\
        \x20       self.send_response(200)\n\
        \x20       self.send_header('Content-Type', 'text/html')\n\
        \x20       self.end_headers()\n\
        \x20       self.wfile.write(b'<h1>the site</h1>')\n\
        class Server(http.server.ThreadingHTTPServer):\n\
        \x20   address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET\n\
        server = Server((sys.argv[1], 80), Answer)\n\
        print('ready', flush=True)\n\
        server.serve_forever()\n";
    let server = host.command(Tool::PYTHON)?.args(["-c", program, address]).spawn()?;
    server.wait_for("ready", Duration::from_secs(20))?;
    Ok(server)
}

/// Status, redirect and body.
type Answer = (u16, String, String);

/// A request of a guest; status 0: no answer.
fn curl(guest: &Namespace, url: &str, more: &[&str]) -> Result<Answer> {
    let command = guest.command(Tool::CURL)?;
    let command = command
        .args(["--silent", "--show-error", "--insecure", "--max-time", "10", "--noproxy", "*"])
        .args(["--write-out", "\n%{redirect_url}\n%{http_code}", url])
        .args(more);
    let done = command.run()?;
    let (rest, status) = done.stdout.rsplit_once('\n').unwrap_or_default();
    let (body, redirect) = rest.rsplit_once('\n').unwrap_or_default();
    let body = if done.success() { body } else { &done.stderr };
    Ok((status.parse().unwrap_or(0), redirect.to_owned(), body.to_owned()))
}

/// Logs a guest in by the form of a portal, as a browser does. Returns the status: 303 is success.
pub fn log_in(
    guest: &Namespace,
    portal: &str,
    scratch: &Scratch,
    (user, password): (&str, &str),
) -> Result<u16> {
    let jar = scratch.file("cookies").display().to_string();
    let (_, _, form) = curl(guest, portal, &["--cookie-jar", &jar])?;
    let mark = form.split("name=\"mark\" value=\"").nth(1).unwrap_or_default();
    let mark = mark.split('"').next().unwrap_or_default();
    let fields = [("mark", mark), ("user", user), ("password", password)];
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut more = vec!["--cookie", jar.as_str()];
    fields.iter().for_each(|field| more.extend(["--data-urlencode", field.as_str()]));
    Ok(curl(guest, &format!("{portal}log-in"), &more)?.0)
}

/// The user ann with the password `correct horse`, for a configuration.
pub fn ann() -> Result<Value> {
    let hash = Command::program(stoa_binary()?).args(["user", "hash"]);
    let hash = hash.input("correct horse\n").run()?.ok()?.stdout.trim().to_owned();
    Ok(json!({ "name": "ann", "password-hash": hash }))
}

impl Lab {
    fn begin() -> Result<Self> {
        let sides = two_sides(&[])?;
        let topology = Topology::new(&sides)?;
        let mut configuration = Configuration::new(&sides);
        let guests = configuration.interface("host-a");
        guests["stoa-host-interface:host-interface"] = json!({ "device": "guests" });
        guests["stoa-login:login"] = json!({});
        let mut configuration = configuration.json();
        configuration["stoa-login:login"] = json!({
            "portal": { "address": ["198.18.1.1", "2001:db8:1::1"], "title": "Guest network" },
            "user": [ann()?],
            "radius": { "server": [{
                "name": "here", "address": "127.0.0.1", "shared-secret": SECRET,
            }] },
        });
        let radius = Radius::start(topology.router())?;
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
        router.wait_up(&["host-a", "host-b"])?;
        let site = topology.host("host-b");
        let site = vec![serve(site, "198.18.2.2")?, serve(site, "2001:db8:2::2")?];
        let lab = Self { scenario: Scenario { router, topology }, radius, _site: site };
        wait_until("the portal answers", DEADLINE, || match lab.curl(PORTAL, &[]) {
            Ok((200, ..)) => Ok(()),
            other => Err(format!("{other:?}: {}", lab.scenario.router.log())),
        })?;
        Ok(lab)
    }

    fn guest(&self) -> &Host {
        self.scenario.host("host-a")
    }

    fn curl(&self, url: &str, more: &[&str]) -> Result<Answer> {
        curl(self.guest().namespace(), url, more)
    }

    fn status(&self, url: &str) -> Result<u16> {
        Ok(self.curl(url, &[])?.0)
    }

    /// Logs the guest in by the form, as a browser does.
    fn log_in(&self, user: &str, password: &str) -> Result<u16> {
        let scratch = self.scenario.router.scratch();
        log_in(self.guest().namespace(), PORTAL, scratch, (user, password))
    }

    fn logins(&self) -> Result<Vec<Value>> {
        let shown = self.scenario.router.json(&["show", "logins", "--json"])?;
        Ok(shown["hosts"].as_array().cloned().unwrap_or_default())
    }

    fn api(&self) -> Result<Value> {
        let (status, _, body) = self.curl(&format!("{PORTAL}captive-portal/api"), &[])?;
        assert_eq!(status, 200, "{body}");
        Ok(serde_json::from_str(&body).unwrap_or_default())
    }
}

#[test]
fn a_guest_logs_in_and_out_in_a_browser() -> Result<()> {
    let Some(chromium) = browser()? else { return Ok(()) };
    let lab = Lab::begin()?;
    let pictures = Scratch::new()?;
    // STOA_PICTURES=FOLDER keeps those of the guide.
    let folder =
        std::env::var_os("STOA_PICTURES").map_or_else(|| pictures.path().to_owned(), PathBuf::from);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/test/login.mjs");
    let output = lab
        .guest()
        .command(Tool::NODE)?
        .args([&script.to_string_lossy(), SITE, PORTAL, &folder.to_string_lossy()])
        .env("CHROMIUM", &chromium.to_string_lossy())
        .deadline(Duration::from_secs(180))
        .run()?
        .ok()?;
    assert!(output.stdout.contains("{\"done\":true}"), "{}", output.stdout);
    assert_eq!(lab.logins()?, Vec::<Value>::new());
    lab.radius.wait_for(&[
        "Acct-Status-Type = Start",
        "Acct-Status-Type = Stop",
        "User-Name = \"ann\"",
        "Acct-Terminate-Cause = User-Request",
    ])?;
    lab.scenario.end()
}

#[test]
fn unknown_hosts_are_redirected_and_forged_requests_refused() -> Result<()> {
    let lab = Lab::begin()?;
    let sites = [(SITE, "evil.example"), (SITE6, "evil.example"), (SITE, "198.18.2.2")];
    for (site, host) in sites {
        let portal = if site == SITE6 { PORTAL6 } else { PORTAL };
        let (status, redirect, _) = lab.curl(site, &["--header", &format!("Host: {host}")])?;
        assert_eq!((status, redirect.as_str()), (302, portal), "{site}");
    }
    // HTTPS is refused, not intercepted: 7 is "refused".
    let refused = lab.guest().command(Tool::CURL)?;
    let refused = refused.args(["-sk", "--max-time", "10", "https://198.18.2.2/"]).run()?;
    assert_eq!(refused.status.code(), Some(7), "{}", refused.stderr);
    let ping = ["-n", "-c", "1", "-W", "1", "198.18.2.2"];
    assert!(!lab.guest().command(Tool::PING)?.args(ping).run()?.success());
    let api = lab.api()?;
    assert_eq!((&api["captive"], &api["user-portal-url"]), (&json!(true), &json!(PORTAL)));

    // A form that is not the portal's, one of another site, another host, and other paths.
    let log_in = format!("{PORTAL}log-in");
    let fields = ["--data", "user=ann&password=correct+horse&mark=x"];
    assert_eq!(lab.curl(&log_in, &fields)?.0, 403);
    let other = ["--data", "user=ann", "--header", "Origin: https://evil.example"];
    let (status, _, body) = lab.curl(&log_in, &other)?;
    assert_eq!(status, 403, "{body}");
    assert_eq!(lab.curl(PORTAL, &["--header", "Host: evil.example"])?.0, 421);
    // Plain HTTP on the same port.
    let plain = PORTAL.replace("https", "http") + "x";
    let (status, redirect, _) = lab.curl(&plain, &["--header", "Host: evil.example"])?;
    assert_eq!((status, redirect.as_str()), (308, PORTAL));
    let (status, redirect, _) = lab.curl(&format!("{PORTAL}?next=https://evil.example/"), &[])?;
    assert_eq!((status, redirect.as_str()), (200, ""));
    let (status, redirect, _) = lab.curl(&format!("{PORTAL}/evil.example/"), &[])?;
    assert_eq!((status, redirect.as_str()), (303, PORTAL));
    // Wrong passwords are slowed down.
    let tries: Vec<u16> = (0..12).map(|_| lab.log_in("ann", "wrong")).collect::<Result<_>>()?;
    assert_eq!(tries[0], 401, "{tries:?}");
    assert!(tries.contains(&429), "{tries:?}");
    assert_eq!(lab.logins()?, Vec::<Value>::new());
    lab.scenario.end()
}

#[test]
fn a_forged_neighbour_gets_no_login_of_another_host() -> Result<()> {
    let lab = Lab::begin()?;
    let own = lab.guest().mac()?;
    // For the router, the guest's address is now at another MAC address.
    let forge = "\
        import socket\n\
        name = [name for _, name in socket.if_nameindex() if name != 'lo'][0]\n\
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        link.bind((name, 0))\n\
        mac, ours = bytes([2, 0, 0, 0, 0, 0x99]), bytes([198, 18, 1, 2])\n\
        arp = bytes([0, 1, 8, 0, 6, 4, 0, 1]) + mac + ours + bytes(6) + bytes([198, 18, 1, 1])\n\
        for _ in range(3):\n\
        \x20   link.send(bytes([255] * 6) + mac + bytes([8, 6]) + arp)\n";
    lab.guest().command(Tool::PYTHON)?.args(["-c", forge]).run()?.ok()?;
    wait_until("the router has learned the forged address", DEADLINE, || {
        let listed = lab.scenario.router.json(&["show", "neighbors", "--json"]);
        let neighbors = listed.map_err(|error| error.to_string())?.to_string();
        match neighbors.contains("02:00:00:00:00:99") {
            true => Ok(()),
            false => Err(neighbors),
        }
    })?;
    assert_eq!(lab.log_in("ann", "correct horse")?, 303);
    let hosts = lab.logins()?;
    assert_eq!((hosts.len(), &hosts[0]["mac"]), (1, &json!(own)), "{hosts:?}");
    lab.scenario.end()
}

#[test]
fn radius_admits_a_host_with_both_families_until_it_is_logged_out() -> Result<()> {
    let lab = Lab::begin()?;
    assert_eq!(lab.log_in("rad", "battery staple")?, 303, "{}", lab.radius.process.log());
    for site in [SITE, SITE6] {
        wait_until("the site answers", DEADLINE, || match lab.status(site) {
            Ok(200) => Ok(()),
            other => Err(format!("{site}: {other:?}")),
        })?;
    }
    let hosts = lab.logins()?;
    let host = &hosts[0];
    assert_eq!((hosts.len(), &host["user"], &host["method"]), (1, &json!("rad"), &json!("radius")));
    assert_eq!(host["mac"], json!(lab.guest().mac()?), "{host}");
    assert!((700..=777).contains(&host["remaining_s"].as_u64().unwrap_or(0)), "{host}");
    let api = lab.api()?;
    assert_eq!(api["captive"], json!(false));
    assert!(api["seconds-remaining"].as_u64().is_some_and(|it| it <= 777), "{api}");
    lab.radius.wait_for(&["Acct-Status-Type = Start", "Class = 0x676f6c64"])?;

    // Both halves start anew, one after the other.
    for part in ["forwarder_pid", "controller_pid"] {
        let pid = lab.scenario.router.status()?[part].as_u64().unwrap_or(0);
        assert_ne!(pid, 0);
        Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
        wait_until("the host is still known", DEADLINE, || match lab.status(SITE) {
            Ok(200) => Ok(()),
            other => Err(format!("{part}: {other:?}")),
        })?;
    }
    wait_until("the controller lists it", DEADLINE, || match lab.logins() {
        Ok(hosts) if hosts.len() == 1 => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    let cleared = lab.scenario.router.call(&["clear", "logins", "--user", "rad"])?.ok()?.stdout;
    assert!(cleared.contains("Logged out 1 host"), "{cleared}");
    wait_until("the host is unknown", DEADLINE, || match lab.status(SITE) {
        Ok(302) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    lab.radius.wait_for(&["Acct-Terminate-Cause = Admin-Reset", "Acct-Input-Octets"])?;
    lab.scenario.end()
}
