//! The whole graph: bursts of frames, right, wrong and odd, through real forwarders without threads, which differ in
//! their kernels only. All must do the same, balance their packet accounting, get every buffer back, and send only what is valid.
#![no_main]

mod body;
mod frames;
mod lab;

use std::sync::{Mutex, OnceLock};

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use stoa_forwarder::kernel::Kernel;

use frames::Frame;
use lab::Lab;

/// What happens to the router, one after the other.
#[derive(Arbitrary, Debug)]
pub enum Event {
    /// Frames come in at one port together.
    Burst { port: u8, frames: Vec<Frame> },
    /// A frame comes in many times.
    Flood { port: u8, frame: Frame, times: u8 },
    /// Time passes, in steps of 100 ms.
    Time { steps: u8 },
    /// A cable is pulled or plugged.
    Plug { port: u8, is_up: bool },
    /// Another configuration.
    Reload { which: u8 },
}

/// Frames in a burst at most.
const BURST: usize = 64;
/// Events in a run at most.
const EVENTS: usize = 24;

/// One for each kernel that this processor has, the scalar one first.
static LABS: OnceLock<Mutex<Vec<Lab>>> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let Ok(events) = Vec::<Event>::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let labs = LABS.get_or_init(|| Mutex::new(Kernel::available().map(Lab::new).collect()));
    let mut labs = labs.lock().expect("a failed run ends the process");
    for lab in labs.iter_mut() {
        lab.begin();
    }
    for event in events.into_iter().take(EVENTS) {
        happen(&mut labs, event);
    }
    lab::rest(&mut labs);
    agree(&mut labs);
    for lab in labs.iter_mut() {
        lab.end();
    }
});

fn happen(labs: &mut [Lab], event: Event) {
    match event {
        Event::Burst { port, frames } => {
            let frames: Vec<_> = frames.iter().take(BURST).map(Frame::bytes).collect();
            labs.iter_mut().for_each(|lab| lab.send(port, &frames));
        }
        Event::Flood { port, frame, times } => {
            let frames = vec![frame.bytes(); usize::from(times) * 2];
            labs.iter_mut().for_each(|lab| lab.send(port, &frames));
        }
        Event::Time { steps } => lab::pass_time(labs, steps),
        Event::Plug { port, is_up } => labs.iter_mut().for_each(|lab| lab.plug(port, is_up)),
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
