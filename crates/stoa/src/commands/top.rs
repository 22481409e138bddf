//! `stoa top`: live rates of the router.

use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::show::print;
use crate::top::screen::Screen;
use crate::top::view::{self, Order};
use crate::top::{Rates, Snapshot};

/// Show live rates of interfaces, drops, nodes and workers
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keys: q quits, space pauses; n, r, t and d sort by name, received, sent and lost packets.

Examples:
  stoa top
  stoa top --once                  Print one measurement as text
  stoa top --json | jq .workers    Print one object per line every second

If standard output is not a terminal, one measurement is printed."
)]
pub struct Arguments {
    /// Seconds between two measurements
    #[arg(long, short = 'i', value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Sort order of interfaces
    #[arg(long, value_enum, default_value = "rx")]
    sort: Order,
    /// Print one measurement and exit
    #[arg(long)]
    once: bool,
    /// Print JSON, one object per line for each measurement
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Measures until the user stops it.
pub fn execute(arguments: Arguments) -> Outcome {
    block_on(async {
        let mut client = arguments.socket.connect().await?;
        let is_live = stdout().is_terminal() && stdin().is_terminal();
        if is_live && !arguments.once && !arguments.json {
            live(&mut client, &arguments).await?;
        } else {
            text(&mut client, &arguments).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn text(client: &mut Client, arguments: &Arguments) -> Result<(), Failure> {
    let mut before = Snapshot::fetch(client).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(arguments.interval)).await;
        let now = Snapshot::fetch(client).await?;
        let rates = now.rates_since(&before);
        if arguments.json {
            print(&view::json(&rates).to_string())?;
        } else {
            print(&view::lines(&rates, arguments.sort).join("\n"))?;
        }
        if arguments.once || !arguments.json {
            return Ok(());
        }
        before = now;
    }
}

async fn live(client: &mut Client, arguments: &Arguments) -> Result<(), Failure> {
    let interval = Duration::from_secs(arguments.interval);
    let mut before = Snapshot::fetch(client).await?;
    let screen = Screen::open()?;
    let (mut order, mut is_paused, mut rates) = (arguments.sort, false, Rates::default());
    let mut next = Instant::now() + interval.min(Duration::from_millis(300));
    loop {
        let paused = if is_paused { "paused, " } else { "" };
        let bottom = format!(
            "{paused}every {} s, by {order:?}   q quit  n name  r received  t sent  d lost  space pause",
            arguments.interval
        );
        screen.show(&view::lines(&rates, order), &bottom)?;
        match screen.key(next)? {
            Some('q') => return Ok(()),
            Some('n') => order = Order::Name,
            Some('r') => order = Order::Rx,
            Some('t') => order = Order::Tx,
            Some('d') => order = Order::Drops,
            Some(' ') => is_paused = !is_paused,
            _ => {}
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            let now = Snapshot::fetch(client).await?;
            if !is_paused {
                rates = now.rates_since(&before);
            }
            before = now;
        }
    }
}
