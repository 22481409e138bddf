//! `stoa capture`: frames as they were received, sent or dropped.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use stoa_api::v1::{CaptureDirection, CaptureReply, CaptureRequest};
use tokio::signal::unix::{SignalKind, signal};
use tonic::Streaming;

use crate::capture::Sink;
use crate::capture::files::Files;
use crate::capture::lines::Lines;
use crate::capture::pcapng::PcapNg;
use crate::failure::{Failure, Outcome, counted, say};
use crate::operator::{SocketArgument, block_on};

/// Capture frames of an interface: on the screen, into files, or to Wireshark
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stoa capture eth0                               A line for each frame, until Ctrl-C
  stoa capture eth0 icmp or arp                   With a filter of tcpdump
  stoa capture any --direction drop               What is dropped, and why
  stoa capture eth0 | wireshark -k -i -           Into Wireshark as it comes
  stoa capture eth0 | tcpdump -n -r -
  stoa capture eth0 --write eth0.pcapng --count 1000
  stoa capture any --write all.pcapng --ring-size 100 --ring-files 10

On a terminal there are lines, elsewhere pcapng. Forwarding is never slowed: what finds no
room is not captured, and counted at the end.")]
pub struct Arguments {
    /// Interface, or "any"
    #[arg(value_name = "INTERFACE")]
    interface: String,
    /// Only frames that this filter takes, in the language of tcpdump
    #[arg(value_name = "EXPRESSION")]
    expression: Vec<String>,
    /// The same as an option
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "expression")]
    filter: Option<String>,
    /// Received, sent or dropped frames, several with commas [default: rx,tx]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DIRECTION")]
    direction: Vec<Direction>,
    /// End after so many frames
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Bytes to keep of each frame [default: all]
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    snaplen: u32,
    /// Write pcapng to this file; "-" is standard output
    #[arg(long, short = 'w', value_name = "FILE")]
    write: Option<PathBuf>,
    /// Begin a new file after so many MB
    #[arg(long, value_name = "MB", requires = "write", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    ring_size: Option<u64>,
    /// Keep so many files, the newest
    #[arg(long, value_name = "K", requires = "ring_size", default_value_t = 10, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=99_999))]
    ring_files: u32,
    /// Lines, also when standard output is no terminal
    #[arg(long, conflicts_with = "write")]
    lines: bool,
    /// MAC addresses in the lines
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

/// Captures until the end.
pub fn execute(arguments: Arguments) -> Outcome {
    let request = request(&arguments);
    block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut client = arguments.socket.connect().await?;
        let mut stream = client.capture(request).await?.into_inner();
        let mut sink = sink(&arguments)?;
        let (mut captured, mut missed) = (0, 0);
        let listened = tokio::select! {
            listened = listen(&mut stream, sink.as_mut(), &mut captured, &mut missed) => listened,
            _ = tokio::signal::ctrl_c() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        // The other end of a pipe that went away has all that it wanted.
        let written = listened.and_then(|()| sink.flush().map_err(Failure::from));
        let more = if missed > 0 { ": they came faster than they could be written" } else { "" };
        say(format_args!("{} captured, {missed} missed{more}", counted(captured, "frame")));
        written.map(|()| ExitCode::SUCCESS)
    })
}

fn request(arguments: &Arguments) -> CaptureRequest {
    let direction = |one: &Direction| match one {
        Direction::Rx => CaptureDirection::Rx as i32,
        Direction::Tx => CaptureDirection::Tx as i32,
        Direction::Drop => CaptureDirection::Drop as i32,
    };
    let words = arguments.expression.join(" ");
    CaptureRequest {
        interface: arguments.interface.clone(),
        directions: arguments.direction.iter().map(direction).collect(),
        expression: arguments.filter.clone().unwrap_or(words),
        snap_length: arguments.snaplen,
        count: arguments.count.unwrap_or(0),
        filter: Vec::new(),
    }
}

/// Where frames go.
fn sink(arguments: &Arguments) -> Result<Box<dyn Sink>, Failure> {
    let to_output = arguments.write.as_ref().is_none_or(|path| path.as_os_str() == "-");
    let output = io::stdout();
    if let Some(path) = arguments.write.as_ref().filter(|_| !to_output) {
        let ring =
            arguments.ring_size.map(|size| (size * 1_000_000, arguments.ring_files as usize));
        let files = Files::new(path, arguments.snaplen, ring);
        let files = files.map_err(|error| Failure::because("cannot write", error))?;
        return Ok(Box::new(files));
    }
    if arguments.ring_size.is_some() {
        return Err(Failure::Usage("a ring of files needs --write with a file's name".to_owned()));
    }
    if arguments.lines || (output.is_terminal() && arguments.write.is_none()) {
        return Ok(Box::new(Lines::new(io::BufWriter::new(output), arguments.link)));
    }
    if output.is_terminal() {
        let words = "pcapng is not for a terminal: pipe it, or name a file with --write";
        return Err(Failure::Usage(words.to_owned()));
    }
    Ok(Box::new(PcapNg::new(io::BufWriter::new(output), arguments.snaplen)?))
}

/// Takes frames until the router has sent all that was asked for.
async fn listen(
    stream: &mut Streaming<CaptureReply>,
    sink: &mut dyn Sink,
    captured: &mut usize,
    missed: &mut u64,
) -> Result<(), Failure> {
    while let Some(reply) = stream.message().await? {
        if !reply.interfaces.is_empty() {
            say("Capturing: Ctrl-C ends it.");
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
