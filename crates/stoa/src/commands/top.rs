//! `stoa top`: the router at work, as it happens.

use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::operator::{Client, SocketArgument, block_on};
use crate::show::print;
use crate::top::screen::Screen;
use crate::top::view::{self, Order};
use crate::top::{Look, Rates};

/// Watch the router at work: rates, drops, nodes, workers, every second
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keys: q quit, n by name, r by received, t by sent, d by lost, space holds the picture.

Examples:
  stoa top
  stoa top --once                  One look of a second, as text
  stoa top --json | jq .workers    One object on one line every second

Where standard output is no terminal there is one look."
)]
pub struct Arguments {
    /// Seconds between two looks
    #[arg(long, short = 'i', value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// The order of interfaces
    #[arg(long, value_enum, default_value = "rx")]
    sort: Order,
    /// One look, then end
    #[arg(long)]
    once: bool,
    /// Answer with JSON, one object on one line for each look
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: SocketArgument,
}

/// Looks until it is told to end.
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
    let mut before = Look::take(client).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(arguments.interval)).await;
        let now = Look::take(client).await?;
        let rates = now.since(&before);
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
    let mut before = Look::take(client).await?;
    let screen = Screen::take()?;
    let (mut order, mut is_held, mut rates) = (arguments.sort, false, Rates::default());
    let mut next = Instant::now() + interval.min(Duration::from_millis(300));
    loop {
        let hold = if is_held { "held, " } else { "" };
        let bottom = format!(
            "{hold}every {} s, by {order:?}   q quit  n name  r received  t sent  d lost  space hold",
            arguments.interval
        );
        screen.show(&view::lines(&rates, order), &bottom)?;
        match screen.key(next)? {
            Some('q') => return Ok(()),
            Some('n') => order = Order::Name,
            Some('r') => order = Order::Rx,
            Some('t') => order = Order::Tx,
            Some('d') => order = Order::Drops,
            Some(' ') => is_held = !is_held,
            _ => {}
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            let now = Look::take(client).await?;
            if !is_held {
                rates = now.since(&before);
            }
            before = now;
        }
    }
}
