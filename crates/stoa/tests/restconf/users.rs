//! `stoa user`: the first user, from a script and at a terminal; the list of users.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::https::Router;

fn fresh() -> Router {
    Router::start(json!({ "ietf-interfaces:interfaces": { "interface": [] } }), json!([]))
}

impl Router {
    fn user(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
        command.arg("user").args(arguments).arg("--socket").arg(self.path("stoa.sock"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // What refuses the arguments may end before it reads.
        let written = child.stdin.take().unwrap().write_all(input.as_bytes());
        let is_fine = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        assert!(written.as_ref().err().is_none_or(is_fine), "{written:?}");
        child.wait_with_output().unwrap()
    }

    fn is_edited(&self) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
        command.args(["show", "history", "--json", "--socket"]).arg(self.path("stoa.sock"));
        let history: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        history["is_edited"] == true
    }
}

fn err(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_script_creates_the_first_user_only() {
    let router = fresh();
    router.wait("there is a setup token", || router.path("stoa.state/setup-token").exists());
    let list = out(&router.user(&["list"], ""));
    assert!(list.contains("no user yet") && list.contains("stoa user setup"), "{list}");
    assert!(err(&router.user(&["setup"], "correct horse\n")).contains("--name"));
    let short = err(&router.user(&["setup", "--name", "root"], "short\n"));
    assert!(short.contains("8 characters"), "{short}");
    let odd = err(&router.user(&["setup", "--name", "no name"], "correct horse\n"));
    assert!(odd.contains("not changed"), "{odd}");
    assert!(!router.is_edited(), "what was refused is not left in the candidate");

    let mode =
        |name: &str| std::fs::metadata(router.path(name)).unwrap().permissions().mode() & 0o777;
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(router.path("stoa.json"), open).unwrap();
    let done = router.user(&["setup", "--name", "root", "--json"], "correct horse\n");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("stoa.json contains secrets: it has mode 0600 now"), "{said}");
    let private = ["stoa.json", "stoa.state/https/key.pem"].map(mode);
    assert_eq!(
        (private, mode("stoa.state"), mode("stoa.state/history")),
        ([0o600; 2], 0o700, 0o700)
    );
    let made = out(&done);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["url"], format!("https://localhost:{}", router.port));
    let certificate = made["certificate"].as_str().unwrap();
    assert_eq!(certificate, router.path("stoa.state/https/certificate.pem").to_str().unwrap());
    let known = router.ask("root:correct horse", "GET", "/whoami", &[], "");
    assert_eq!((known.status, &known.json()["admin"]), (200, &json!(true)));
    router.wait("the token is gone", || !router.path("stoa.state/setup-token").exists());

    let second = err(&router.user(&["setup", "--name", "eve"], "correct horse\n"));
    assert!(second.contains("there is an administrator already"), "{second}");
    let list: Value = serde_json::from_str(&out(&router.user(&["list", "--json"], ""))).unwrap();
    let root = json!({ "name": "root", "admin": true, "groups": [], "password": true });
    assert_eq!(list["users"], json!([root]));
}

/// The output of a terminal up to a text.
fn until(screen: &mut impl Read, words: &str) -> String {
    let mut text = String::new();
    let mut byte = [0];
    while !text.contains(words) {
        assert_eq!(screen.read(&mut byte).unwrap(), 1, "it ended before {words:?}: {text}");
        text.push(char::from(byte[0]));
    }
    text
}

#[test]
fn the_first_administrator_may_come_after_other_users() {
    let router = fresh();
    out(&router.user(&["add", "ann", "--group", "noc"], "correct horse\n"));
    let list = out(&router.user(&["list"], ""));
    assert!(list.contains("ann") && list.contains("There is no administrator"), "{list}");
    let same = err(&router.user(&["setup", "--name", "ann"], "battery staple\n"));
    assert!(same.contains("there is a user \"ann\" already"), "{same}");
    out(&router.user(&["setup", "--name", "root"], "battery staple\n"));
    let list = out(&router.user(&["list"], ""));
    assert!(list.contains("root") && !list.contains("no administrator"), "{list}");
    assert_eq!(router.ask("root:battery staple", "GET", "/whoami", &[], "").status, 200);
}

#[test]
fn a_terminal_prompts_and_hides_the_password() {
    let router = fresh();
    let line = format!(
        "{} user setup --socket {}",
        env!("CARGO_BIN_EXE_stoa"),
        router.path("stoa.sock").display()
    );
    // A pseudo-terminal by `script` of util-linux, which every Debian has.
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    until(&mut screen, "[admin]: ");
    keys.write_all(b"\r").unwrap();
    until(&mut screen, "Password: ");
    keys.write_all(b"correct hosre\x15correct horse\r").unwrap();
    let first = until(&mut screen, "Repeat password: ");
    keys.write_all(b"correct horse\r").unwrap();
    let shown = until(&mut screen, "stoa commit\r\n");
    assert!(!first.contains("horse") && !shown.contains("horse"), "{first}{shown}");
    assert!(
        shown.contains("Created the administrator admin") && shown.contains("/whoami"),
        "{shown}"
    );
    drop(keys);
    assert!(child.wait().unwrap().success());
    assert_eq!(router.ask("admin:correct horse", "GET", "/whoami", &[], "").status, 200);
}
