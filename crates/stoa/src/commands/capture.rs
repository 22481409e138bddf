//! `stoa capture`: captures frames as they were received, sent or dropped.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stoa_api::v1::{CaptureDirection, CaptureReply, CaptureRequest};
use tokio::signal::unix::{SignalKind, signal};
use tonic::Streaming;

use crate::capture::Sink;
use crate::capture::files::Files;
use crate::capture::lines::Lines;
use crate::capture::pcapng::PcapNg;
use crate::failure::{Failure, Outcome, plural, to_stderr};
use crate::operator::{SocketArgument, block_on};

/// Capture frames of an interface to the screen, into files, or for Wireshark
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa capture eth0                               Print a line for each frame, until Ctrl-C
  stoa capture eth0 icmp or arp                   Capture only what a tcpdump filter matches
  stoa capture any --direction drop               Show dropped packets and the reason
  stoa capture eth0 | wireshark -k -i -           Show frames in Wireshark as they arrive
  stoa capture eth0 | tcpdump -n -r -
  stoa capture eth0 --write eth0.pcapng --count 1000
  stoa capture any --write all.pcapng --ring-size 100 --ring-files 10

On a terminal, each frame is one line of text. In a pipe or file, the output is pcapng, which is
binary and is never written to a terminal. A capture does not slow forwarding: frames that do not
fit into its buffer are not captured, but counted as missed.")]
pub struct Arguments {
    /// Name of an interface, or "any"
    #[arg(value_name = "INTERFACE")]
    interface: String,
    /// Capture only frames that match this tcpdump filter
    #[arg(value_name = "EXPRESSION")]
    expression: Vec<String>,
    /// The filter as an option
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "expression")]
    filter: Option<String>,
    /// Capture received, sent or dropped frames; separate several with commas [default: rx,tx]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DIRECTION")]
    direction: Vec<Direction>,
    /// Stop after N frames
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Keep the first BYTES of each frame [default: all]
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    snaplen: u32,
    /// Write pcapng into this file; "-" is standard output, which must not be a terminal
    #[arg(long, short = 'w', value_name = "FILE")]
    write: Option<PathBuf>,
    /// Start a new file after MB megabytes
    #[arg(long, value_name = "MB", requires = "write", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    ring_size: Option<u64>,
    /// Keep the newest K files
    #[arg(long, value_name = "K", requires = "ring_size", default_value_t = 10, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=99_999))]
    ring_files: u32,
    /// Print text lines even if standard output is not a terminal
    #[arg(long, conflicts_with = "write")]
    lines: bool,
    /// Show MAC addresses in the lines
    #[arg(long, short = 'e')]
    link: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Direction {
    Rx,
    Tx,
    Drop,
}

/// Captures until the router has sent everything, or until a signal.
pub fn execute(arguments: Arguments) -> Outcome {
    let request = request(&arguments);
    let output = Output::choose(&arguments, is_terminal)?;
    block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut client = arguments.socket.connect().await?;
        let mut stream = client.capture(request).await?.into_inner();
        let mut sink = output.open(&arguments)?;
        let (mut captured, mut missed) = (0, 0);
        let received = tokio::select! {
            received = receive(&mut stream, sink.as_mut(), &mut captured, &mut missed) => received,
            _ = tokio::signal::ctrl_c() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        let written = received.and_then(|()| sink.flush().map_err(Failure::from));
        let reason = if missed > 0 { ": frames arrived faster than they were written" } else { "" };
        to_stderr(format_args!("{} captured, {missed} missed{reason}", plural(captured, "frame")));
        written.map(|()| ExitCode::SUCCESS)
    })
}

fn request(arguments: &Arguments) -> CaptureRequest {
    let direction = |one: &Direction| match one {
        Direction::Rx => CaptureDirection::Rx as i32,
        Direction::Tx => CaptureDirection::Tx as i32,
        Direction::Drop => CaptureDirection::Drop as i32,
    };
    let expression = arguments.expression.join(" ");
    CaptureRequest {
        interface: arguments.interface.clone(),
        directions: arguments.direction.iter().map(direction).collect(),
        expression: arguments.filter.clone().unwrap_or(expression),
        snap_length: arguments.snaplen,
        count: arguments.count.unwrap_or(0),
        filter: Vec::new(),
    }
}

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// Text lines on standard output.
    Lines,
    /// pcapng on standard output.
    PcapNg,
    /// pcapng into files.
    Files,
}

impl Output {
    /// The output that the arguments select. pcapng is binary: a terminal would take parts of it for control
    /// sequences, so it is refused there, before the router starts a capture.
    fn choose(arguments: &Arguments, is_terminal: fn(&Path) -> bool) -> Result<Output, Failure> {
        let stdout = Path::new("-");
        let file = arguments.write.as_deref().unwrap_or(stdout);
        if file == stdout && arguments.ring_size.is_some() {
            let text = "--ring-size needs a file: name it with --write FILE".to_owned();
            return Err(Failure::Usage(text));
        }
        match (&arguments.write, is_terminal(file)) {
            (None, is_terminal) if is_terminal || arguments.lines => Ok(Output::Lines),
            (Some(_), true) => Err(Failure::Usage(format!(
                "--write {}: pcapng is binary, and this is a terminal: pipe the output into a program, \
                 name a file, or leave --write out for text",
                file.display()
            ))),
            (Some(_), false) if file != stdout => Ok(Output::Files),
            _ => Ok(Output::PcapNg),
        }
    }

    fn open(self, arguments: &Arguments) -> Result<Box<dyn Sink>, Failure> {
        let stdout = io::BufWriter::new(io::stdout());
        Ok(match (self, &arguments.write) {
            (Output::Files, Some(path)) => {
                let ring = arguments
                    .ring_size
                    .map(|size| (size * 1_000_000, arguments.ring_files as usize));
                let files = Files::new(path, arguments.snaplen, ring);
                Box::new(files.map_err(|error| Failure::context("cannot write", error))?)
            }
            (Output::Lines, _) => Box::new(Lines::new(stdout, arguments.link)),
            _ => Box::new(PcapNg::new(stdout, arguments.snaplen)?),
        })
    }
}

/// Whether a file is a terminal, under whatever name: `-`, `/dev/stdout`, `/dev/tty`.
fn is_terminal(file: &Path) -> bool {
    if file.as_os_str() == "-" {
        return io::stdout().is_terminal();
    }
    // Only devices are opened: opening a named pipe would block.
    let is_device = file.metadata().is_ok_and(|it| it.file_type().is_char_device());
    is_device && File::options().write(true).open(file).is_ok_and(|file| file.is_terminal())
}

/// Writes frames until the router has sent everything that was requested.
async fn receive(
    stream: &mut Streaming<CaptureReply>,
    sink: &mut dyn Sink,
    captured: &mut usize,
    missed: &mut u64,
) -> Result<(), Failure> {
    while let Some(reply) = stream.message().await? {
        if !reply.interfaces.is_empty() {
            to_stderr("Capturing: press Ctrl-C to stop.");
        }
        sink.interfaces(&reply.interfaces)?;
        for frame in &reply.frames {
            sink.frame(frame)?;
        }
        *captured += reply.frames.len();
        *missed = reply.missed;
        sink.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct CaptureLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn chosen(options: &str, is_terminal: fn(&Path) -> bool) -> Result<Output, Failure> {
        let words = ["capture", "eth0"].into_iter().chain(options.split_whitespace());
        Output::choose(&CaptureLine::parse_from(words).arguments, is_terminal)
    }

    #[test]
    fn pcapng_never_goes_to_a_terminal() {
        assert_eq!(chosen("", |_| true).ok(), Some(Output::Lines));
        assert_eq!(chosen("", |_| false).ok(), Some(Output::PcapNg));
        assert_eq!(chosen("--lines", |_| false).ok(), Some(Output::Lines));
        assert_eq!(chosen("--write -", |_| false).ok(), Some(Output::PcapNg));
        assert_eq!(chosen("--write a.pcapng", |_| false).ok(), Some(Output::Files));
        for terminal in ["-", "/dev/stdout", "/dev/tty"] {
            let refused = chosen(&format!("--write {terminal}"), |_| true);
            let Err(Failure::Usage(text)) = refused else { panic!("{terminal}: {refused:?}") };
            assert!(text.contains(terminal) && text.contains("pipe the output"), "{text}");
        }
        let ring = chosen("--write - --ring-size 1", |_| false);
        assert!(matches!(ring, Err(Failure::Usage(text)) if text.contains("--write FILE")));
        assert!(!is_terminal(Path::new("/dev/null")) && !is_terminal(Path::new("/nowhere")));
    }
}
