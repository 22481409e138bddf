//! Metric families with their help, unit and samples.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use stoa_api::counters::{Counter, Metric};

/// Writes metric families.
pub struct Page<'a>(DescriptorEncoder<'a>);

/// A boolean as a gauge.
pub(crate) fn one(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// An integer as a gauge: exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// "" is no unit.
fn unit(name: &str) -> Option<Unit> {
    (!name.is_empty()).then(|| Unit::Other(name.to_owned()))
}

impl<'a> Page<'a> {
    /// A page that writes to `encoder`.
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A family of counters. Its name becomes `stoa_NAME_UNIT_total`.
    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let unit = self::unit(unit);
        let mut family =
            self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for (labels, value) in samples {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// The families of a table of counters, for its rows.
    pub fn table<'r, T: 'static, L: EncodeLabelSet>(
        &mut self,
        table: impl IntoIterator<Item = &'static Counter<T>>,
        rows: impl Iterator<Item = &'r T> + Clone,
        labels: impl Fn(&'r T) -> L,
    ) -> fmt::Result {
        for counter in table {
            let Some(Metric { name, unit, help }) = counter.metric else { continue };
            let samples = rows.clone().map(|row| (labels(row), (counter.of)(row)));
            self.counters(name, unit, help, samples)?;
        }
        Ok(())
    }

    /// A counter without labels.
    pub fn counter(&mut self, name: &str, unit: &str, help: &str, value: u64) -> fmt::Result {
        let unit = self::unit(unit);
        let family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        ConstCounter::new(value).encode(family)
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, unit: &str, help: &str, value: f64) -> fmt::Result {
        let unit = self::unit(unit);
        let family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        ConstGauge::new(value).encode(family)
    }

    /// A counter of fractional seconds.
    pub fn seconds<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let unit = Unit::Seconds;
        let mut family = self.0.encode_descriptor(name, help, Some(&unit), MetricType::Counter)?;
        for (labels, value) in samples {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A family of gauges. Its name becomes `stoa_NAME_UNIT`.
    pub fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let unit = self::unit(unit);
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in samples {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// An info metric. Its name becomes `stoa_NAME_info`, its value is 1.
    pub fn info<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = L>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        for labels in samples {
            family.encode_info(&labels)?;
        }
        Ok(())
    }
}
