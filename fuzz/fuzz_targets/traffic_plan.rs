//! Run files of `stoa traffic`: arbitrary text is a valid plan or is rejected with an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_traffic::plan::parse;

fuzz_target!(|text: &str| {
    // Special files can be endless.
    if text.contains("/dev/") || text.contains("/proc/") {
        return;
    }
    look(text);
});

fn look(text: &str) {
    match parse(text) {
        Ok(plan) => {
            assert!(!plan.ports.is_empty());
            assert!(plan.seconds > 0.0);
            for seconds in [plan.seconds, plan.settle, plan.patience] {
                std::time::Duration::try_from_secs_f64(seconds)
                    .expect("a time that can be waited for");
            }
            for stream in &plan.streams {
                let (mean, longest) = (stream.mean_frame(), stream.longest());
                assert!(mean > 0.0 && mean <= longest as f64, "{mean} of at most {longest}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
