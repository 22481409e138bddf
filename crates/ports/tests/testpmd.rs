//! memif against an independent peer: DPDK's `net_memif`, driven by `dpdk-testpmd`.
//!
//! Needs root and Debian's `dpdk` package; without them the tests say so and pass.

mod harness;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stoa_engine::Pool;
use stoa_engine::pool::HugePages;
use stoa_ports::{MemifConfig, MemifRole, PortConfig};

use harness::{DEADLINE, End, until};

/// A running testpmd, ended with the test.
struct Testpmd {
    child: Child,
    said: Arc<Mutex<String>>,
    _folder: tempfile::TempDir,
}

impl Testpmd {
    /// Starts testpmd with a memif port; `None` when this machine cannot.
    fn start(socket: &str, role: &str, mode: &str, queues: [u16; 2]) -> Option<Self> {
        let is_root = nix::unistd::geteuid().is_root();
        let found = Command::new("dpdk-testpmd").arg("--version").output().is_ok();
        if !is_root || !found {
            eprintln!("skipped: needs root and dpdk-testpmd (Debian package dpdk)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [rx_queues, tx_queues] = queues;
        let device = format!("net_memif0,role={role},id=7,socket={socket},socket-abstract=no");
        let mut command = Command::new("dpdk-testpmd");
        command
            .env("XDG_RUNTIME_DIR", folder.path())
            .args(["--lcores", "(0,1)@1", "--no-pci", "--no-huge", "--no-shconf", "-m", "128"])
            .args([
                "--no-telemetry",
                "--file-prefix",
                &format!("stoa{}{role}{mode}{rx_queues}{tx_queues}", std::process::id()),
            ])
            .args(["--vdev", &device, "--", "--total-num-mbufs=8192", "--stats-period", "1"])
            .args([format!("--rxq={rx_queues}"), format!("--txq={tx_queues}")])
            .args(["--auto-start", &format!("--forward-mode={mode}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: between fork and exec only one system call, which allocates nothing.
        unsafe {
            command.pre_exec(|| {
                // It must not outlive the test, whatever becomes of that.
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
                Ok(())
            })
        };
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        listen(child.stdout.take().unwrap(), said.clone());
        listen(child.stderr.take().unwrap(), said.clone());
        Some(Self { child, said, _folder: folder })
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }
}

fn listen(from: impl Read + Send + 'static, said: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            said.lock().unwrap().push_str(&(line + "\n"));
        }
    });
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our end, in `role`.
fn end(socket: &str, role: MemifRole, pool: &'static Pool) -> End {
    end_with_queues(socket, role, [1, 1], pool)
}

fn end_with_queues(
    socket: &str,
    role: MemifRole,
    [rx_queues, tx_queues]: [u16; 2],
    pool: &'static Pool,
) -> End {
    let config = MemifConfig {
        socket: socket.into(),
        id: 7,
        role,
        rx_queues,
        tx_queues,
        mtu: 9000,
        ..MemifConfig::default()
    };
    End::open(&PortConfig::Memif(config), pool)
}

fn up(end: &mut End, testpmd: &mut Testpmd) {
    let start = Instant::now();
    while end.service() != Some(true) {
        if let Some(status) = testpmd.child.try_wait().unwrap() {
            panic!("testpmd ended with {status}:\n{}", testpmd.said());
        }
        assert!(start.elapsed() < DEADLINE, "no link: {}\n{}", end.port.detail(), testpmd.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{}", end.port.detail());
}

/// Sends until something comes back: testpmd empties its rings when it starts to forward.
fn warm_up(end: &mut End, testpmd: &Testpmd) {
    let start = Instant::now();
    while end.receive().is_empty() {
        end.send(&[[2_u8; 60]]);
        std::thread::sleep(Duration::from_millis(5));
        assert!(start.elapsed() < DEADLINE, "nothing comes back:\n{}", testpmd.said());
    }
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_millis(200) {
        if !end.receive().is_empty() {
            quiet = Instant::now();
        }
    }
}

fn frame(length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|at| (at * 3 + length) as u8).collect();
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// testpmd swaps MAC addresses and sends back what we send.
fn come_back(end: &mut End, frames: &[Vec<u8>]) {
    let (mut sent, mut got) = (0, Vec::new());
    until("all frames back", || {
        // No more on the way than a ring holds: testpmd drops what it cannot send.
        if sent < frames.len() && sent - got.len() < 128 {
            sent += end.send(&frames[sent..frames.len().min(sent + 32)]);
        }
        got.extend(end.receive());
        (got.len() >= frames.len()).then_some(())
    });
    for (got, frame) in got.iter().zip(frames) {
        assert_eq!(got[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        assert!(got[12..] == frame[12..], "{} bytes", frame.len());
    }
}

/// Frames of all sizes through each queue; then we die and come again, where testpmd hears
/// it: as a client, DPDK connects once when its port starts. Then testpmd dies.
fn answers(ours: MemifRole, theirs: &str, queues: u16) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let pool = Pool::leak(8192, HugePages::Never).unwrap();
    let open = || end_with_queues(&socket, ours, [queues, queues], pool);
    let mut end = open();
    let Some(mut testpmd) = Testpmd::start(&socket, theirs, "macswap", [queues, queues]) else {
        return;
    };
    let all: Vec<Vec<u8>> = (60..=1514).chain([2048, 2113, 4096, 9014]).map(frame).collect();
    let few: Vec<Vec<u8>> = [60, 1514, 9014].map(frame).into();
    let lives = if ours == MemifRole::Slave { 3 } else { 1 };
    for frames in [&all, &few, &few].into_iter().take(lives) {
        up(&mut end, &mut testpmd);
        assert_eq!((end.queues.rx.len(), end.queues.tx.len()), (queues.into(), queues.into()));
        for _ in 0..queues {
            warm_up(&mut end, &testpmd);
            come_back(&mut end, frames);
            end.queues.rx.rotate_left(1);
            end.queues.tx.rotate_left(1);
        }
        assert_eq!(end.port.missed(), 0);
        if lives > 1 {
            end = open();
        }
    }
    if lives > 1 {
        up(&mut end, &mut testpmd);
    }
    drop(testpmd);
    until("the link is down", || (end.service() == Some(false)).then_some(()));
    drop(end);
    assert_eq!((pool.free(), pool.jumbo_free()), (8192, u64::from(pool.jumbo_count())));
}

#[test]
fn our_master_speaks_with_a_testpmd_client() {
    answers(MemifRole::Master, "client", 1);
}

#[test]
fn our_slave_speaks_with_a_testpmd_server() {
    answers(MemifRole::Slave, "server", 1);
}

#[test]
fn our_master_speaks_with_a_testpmd_client_by_four_queues() {
    answers(MemifRole::Master, "client", 4);
}

#[test]
fn our_slave_speaks_with_a_testpmd_server_by_four_queues() {
    answers(MemifRole::Slave, "server", 4);
}

#[test]
fn a_testpmd_client_brings_more_queues_one_way_than_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let mut end = end(&socket, MemifRole::Master, pool);
    // It has three to receive by; its forwarding uses as many as it has to send by.
    let Some(mut testpmd) = Testpmd::start(&socket, "client", "macswap", [3, 1]) else { return };
    up(&mut end, &mut testpmd);
    assert_eq!((end.queues.rx.len(), end.queues.tx.len()), (1, 3));
    warm_up(&mut end, &testpmd);
    come_back(&mut end, &[60, 1514, 9014].map(frame));
}

#[test]
fn a_new_peer_is_taken_when_the_old_one_died() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock").display().to_string();
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let mut end = end(&socket, MemifRole::Master, pool);
    for _ in 0..2 {
        let Some(mut testpmd) = Testpmd::start(&socket, "client", "macswap", [1, 1]) else {
            return;
        };
        up(&mut end, &mut testpmd);
        warm_up(&mut end, &testpmd);
        drop(testpmd);
        until("the link is down", || (end.service() == Some(false)).then_some(()));
    }
}

/// Receives a burst and sends it back as it is; returns (received, sent).
fn echo(end: &mut End) -> (usize, usize) {
    let got = end.queues.rx[0].receive(&mut end.vector, &mut end.cache);
    if got == 0 {
        return (0, 0);
    }
    let sent = end.queues.tx[0].transmit(&mut end.vector, &mut end.cache);
    end.cache.free_from(&mut end.vector, 0);
    (got, sent)
}

/// `cargo test --release -p stoa-ports --test testpmd -- --ignored --nocapture --test-threads 1`
#[test]
#[ignore = "a measurement"]
fn rates() {
    for (ours, theirs) in [(MemifRole::Master, "client"), (MemifRole::Slave, "server")] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("memif.sock").display().to_string();
        let pool = Pool::leak(16_384, HugePages::WhenThere).unwrap();
        let mut end = end(&socket, ours, pool);
        let Some(mut testpmd) = Testpmd::start(&socket, theirs, "flowgen", [1, 1]) else { return };
        up(&mut end, &mut testpmd);
        let mut best = [0.0_f64; 2];
        for _ in 0..6 {
            let (start, mut got, mut sent) = (Instant::now(), 0, 0);
            while start.elapsed() < Duration::from_millis(500) {
                let (more_got, more_sent) = echo(&mut end);
                got += more_got;
                sent += more_sent;
            }
            let seconds = start.elapsed().as_secs_f64();
            best[0] = best[0].max(got as f64 / seconds / 1e6);
            best[1] = best[1].max(sent as f64 / seconds / 1e6);
        }
        println!("{ours:?}: {:.2} Mpps in, {:.2} Mpps sent back", best[0], best[1]);
    }
}
