//! The whole graph: bursts of valid and invalid frames through forwarders without threads that differ only in their
//! SIMD kernels. All must agree, balance their packet accounting, free all buffers, and send only valid frames.
#![no_main]

mod body;
mod frames;

use std::sync::{Mutex, OnceLock};

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use stoa_forwarder::kernel::Kernel;

use frames::Frame;
use stoa_fuzz::stepped::{self, Lab};

/// An event of a run.
#[derive(Arbitrary, Debug)]
pub enum Event {
    /// A port receives frames in one burst.
    Burst { port: u8, frames: Vec<Frame> },
    /// A port receives a frame many times.
    Flood { port: u8, frame: Frame, times: u8 },
    /// Time passes, in steps of 100 ms.
    Time { steps: u8 },
    /// The link of a port goes up or down.
    Link { port: u8, is_up: bool },
    /// Another configuration.
    Reload { which: u8 },
}

/// The most frames in a burst.
const BURST: usize = 64;
/// The most events in a run.
const EVENTS: usize = 24;

/// One for each kernel that this processor supports, the scalar one first.
static LABS: OnceLock<Mutex<Vec<Lab>>> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let Ok(events) = Vec::<Event>::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let labs = LABS.get_or_init(|| Mutex::new(Kernel::available().map(Lab::new).collect()));
    let mut labs = labs.lock().expect("a failed run ends the process");
    for lab in labs.iter_mut() {
        lab.begin();
    }
    for event in events.into_iter().take(EVENTS) {
        run_event(&mut labs, event);
    }
    stepped::rest(&mut labs);
    agree(&mut labs);
    for lab in labs.iter_mut() {
        lab.end();
    }
});

fn run_event(labs: &mut [Lab], event: Event) {
    match event {
        Event::Burst { port, frames } => {
            let frames: Vec<_> = frames.iter().take(BURST).map(Frame::bytes).collect();
            labs.iter_mut().for_each(|lab| lab.send(port, &frames));
        }
        Event::Flood { port, frame, times } => {
            let frames = vec![frame.bytes(); usize::from(times) * 2];
            labs.iter_mut().for_each(|lab| lab.send(port, &frames));
        }
        Event::Time { steps } => stepped::pass_time(labs, steps),
        Event::Link { port, is_up } => labs.iter_mut().for_each(|lab| lab.plug(port, is_up)),
        Event::Reload { which } => labs.iter_mut().for_each(|lab| lab.reload(which)),
    }
    agree(labs);
}

fn agree(labs: &mut [Lab]) {
    let mut outcomes = labs.iter_mut().map(Lab::outcome);
    let first = outcomes.next();
    for other in outcomes {
        assert_eq!(first.as_ref(), Some(&other), "the kernels do not agree");
    }
}
