//! Methods against a model device.

use super::measure::row;
use super::*;

/// A device with a forwarding rate and a buffer, and the highest rate of its tester.
struct Model {
    most: f64,
    capacity: f64,
    buffer: f64,
    offerable: f64,
    offered: Vec<f64>,
}

impl Bench for Model {
    fn offer(&mut self, load: &Load) -> Result<Trial, MethodError> {
        let Some(Rate::Packets(requested)) = load.rate else { panic!("a rate") };
        self.offered.push(requested);
        let rate = requested.min(self.offerable);
        let seconds = load.count.map_or(load.seconds.unwrap(), |count| count as f64 / rate);
        let sent = rate * seconds;
        let over = ((rate - self.capacity).max(0.0) * seconds - self.buffer).max(0.0);
        let received = sent - over;
        Ok(Trial {
            size: "64".into(),
            intended_pps: Some(requested),
            seconds,
            sent: sent as u64,
            received: received as u64,
            lost: over.ceil() as u64,
            loss: over / sent,
            sent_pps: rate,
            received_pps: received / seconds,
            sent_gbps: 0.0,
            received_gbps: 0.0,
            delays: Some(Delays { min: 1.0, mean: 2.0, p50: 2.0, p99: 4.0, max: 9.0 }),
            bound: (rate < requested).then_some(Bound::Generator),
        })
    }

    fn most(&mut self) -> Result<f64, MethodError> {
        Ok(self.most)
    }
}

fn model() -> Model {
    Model { most: 1e6, capacity: 400e3, buffer: 0.0, offerable: 2e6, offered: Vec::new() }
}

fn method(test: Test) -> Method {
    Method {
        test,
        sizes: Vec::new(),
        seconds: 1.0,
        repeat: 3,
        most: None,
        resolution: 0.005,
        step: 0.25,
        tolerance: 0.005,
    }
}

fn measured(test: Test, mut model: Model) -> (Figures, Vec<Trial>) {
    row(&mut model, &method(test)).unwrap()
}

#[test]
fn a_search_finds_the_capacity() {
    for capacity in [3e3, 123_456.0, 400e3, 999e3] {
        let (figures, trials) = measured(Test::Throughput, Model { capacity, ..model() });
        let found = figures.values["throughput_pps"];
        assert!(found <= capacity && capacity - found <= 5e3, "{found} of {capacity}");
        assert_eq!(figures.bound, Some(Bound::Loss));
        assert!(trials.len() <= 9, "{}", trials.len());
    }
    let (figures, trials) = measured(Test::Throughput, Model { capacity: 2e6, ..model() });
    assert_eq!((figures.bound, trials.len()), (Some(Bound::Highest), 1));
    assert_eq!(figures.values["throughput_share"], 1.0);
}

#[test]
fn a_load_that_was_not_offered_does_not_count_as_loss() {
    let slow = || Model { capacity: 2e6, offerable: 300e3, ..model() };
    let (figures, _) = measured(Test::Throughput, slow());
    assert_eq!(figures.bound, Some(Bound::Generator));
    assert!((295e3..=300e3).contains(&figures.values["throughput_pps"]));
    let (figures, trials) = measured(Test::FrameLoss, slow());
    assert_eq!(figures.bound, Some(Bound::Generator));
    assert!(!figures.values.contains_key("loss_at_100"), "{figures:?}");
    assert_eq!(figures.values["loss_at_025"], 0.0);
    assert_eq!(trials.len(), 4);
}

#[test]
fn frame_loss_ends_after_two_steps_without_loss() {
    let (figures, trials) = measured(Test::FrameLoss, Model { capacity: 600e3, ..model() });
    let loss = |step: &str| figures.values[&format!("loss_at_{step}")];
    assert!((loss("100") - 0.4).abs() < 1e-9 && (loss("075") - 0.2).abs() < 1e-9);
    assert_eq!((loss("050"), loss("025"), trials.len()), (0.0, 0.0, 4));
    let (_, trials) = measured(Test::FrameLoss, Model { capacity: 2e6, ..model() });
    assert_eq!(trials.len(), 2);
}

#[test]
fn partial_drop_is_searched_above_no_drop() {
    let (figures, trials) = measured(Test::NdrPdr, model());
    let (ndr, pdr) = (figures.values["ndr_share"], figures.values["pdr_share"]);
    assert!((0.395..=0.4).contains(&ndr), "{ndr}");
    assert!(pdr >= ndr && pdr <= 0.4 / 0.995, "{pdr}");
    let mut loads: Vec<_> = trials.iter().filter_map(|trial| trial.intended_pps).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    assert_eq!(loads.len(), trials.len(), "nothing is tried twice");
}

#[test]
fn burst_length_depends_on_the_buffer() {
    // 600,000 a second accumulate: 60,000 fill the buffer after a tenth of a second.
    let (figures, _) = measured(Test::BackToBack, Model { buffer: 60e3, ..model() });
    let burst = figures.values["burst_mean_frames"];
    assert!((97e3..=100e3).contains(&burst), "{burst}");
    let seconds = figures.values["buffer_seconds"];
    // The buffer lets a second's throughput exceed the sustained rate.
    assert!((0.04..=0.06).contains(&seconds), "{seconds}");
    let (figures, _) = measured(Test::BackToBack, Model { capacity: 2e6, ..model() });
    assert_eq!(figures.bound, Some(Bound::Highest));
}

#[test]
fn reports_latency_and_the_highest_rate() {
    let (figures, trials) = measured(Test::Latency, model());
    assert_eq!(figures.values["latency_mean_ns"], 2.0);
    let last = &trials[trials.len() - 3..];
    assert!(last.iter().all(|trial| trial.intended_pps == last[0].intended_pps));
    let (figures, trials) = measured(Test::Mrr, model());
    assert_eq!((trials.len(), figures.values["mrr_pps"].round()), (3, 400e3));
}

#[test]
fn rejects_invalid_options() {
    let wrong = [
        Method { seconds: 0.0, ..method(Test::Mrr) },
        Method { repeat: 0, ..method(Test::Mrr) },
        Method { most: Some(Rate::Max), ..method(Test::Mrr) },
        Method { resolution: 0.0, ..method(Test::Mrr) },
        Method { step: 2.0, ..method(Test::Mrr) },
        Method { tolerance: f64::NAN, ..method(Test::Mrr) },
    ];
    for method in wrong {
        assert!(matches!(sane(&method), Err(MethodError::Invalid(_))), "{method:?}");
    }
}

#[test]
fn the_shortest_frame_replaces_64_bytes() {
    let text = "ports: { a: { discard: {}, addresses: ['2001:db8::1/64'] }, b: { discard: {}, \
                addresses: ['2001:db8::2/64'] } }\nstreams: [{ name: s, from: a, to: b, ip6: {} }]";
    let mut file = crate::plan::parse_file(text).unwrap();
    let sizes = [Size::Fixed(64), Size::Fixed(128), Size::Imix3];
    let plans = plans(&mut file, &sizes).unwrap();
    let names: Vec<_> = plans.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["78", "128", "imix3"]);
    assert!(super::plans(&mut file, &[Size::Fixed(20)]).is_err());
}
