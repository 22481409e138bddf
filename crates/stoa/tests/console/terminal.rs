//! Keys at a terminal.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// The console at a terminal of util-linux's script, which is on every Debian.
struct Terminal {
    child: std::process::Child,
    output: Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn open() -> Terminal {
        let line = format!("{} console --socket /nowhere", env!("CARGO_BIN_EXE_stoa"));
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("XDG_STATE_HOME", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script starts");
        let mut stdout = child.stdout.take().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, output, text: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for a text after `from`, and answers as a terminal does that is asked for its cursor.
    fn wait(&mut self, from: usize, part: &str) {
        let begun = Instant::now();
        while !self.text[from..].contains(part) {
            assert!(begun.elapsed() < DEADLINE, "no {part:?} in {:?}", &self.text[from..]);
            let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(100)) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            for _ in text.matches("\u{1b}[6n") {
                self.press("\u{1b}[5;1R");
            }
            self.text.push_str(&text);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_question_mark_helps_without_enter_and_keeps_the_line() {
    let mut terminal = Terminal::open();
    terminal.wait(0, "> ");
    terminal.press("sh int");
    terminal.wait(0, "sh int");
    let asked = terminal.text.len();
    terminal.press("?");
    terminal.wait(asked, "interfaces  Ports and sub-interfaces");
    let helped = terminal.text.len();
    // The prompt comes back with what was typed.
    terminal.wait(asked, "sh int");
    terminal.press("\u{15}set \"why?");
    terminal.wait(helped, "why?");
    terminal.press("\u{15}exit\r");
    assert!(!terminal.text.contains("no router runs"), "nothing was run: {}", terminal.text);
}
