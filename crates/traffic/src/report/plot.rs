//! One plot as SVG: plain lines whose colours come from the page's style sheet, for light and dark
//! themes.

use plotters::prelude::*;
use plotters::style::RGBColor;

/// Size of the picture in points; the page scales it.
const SIZE: (u32, u32) = (560, 280);
/// Placeholder colours that the page's style sheet replaces.
const GRID: RGBColor = RGBColor(0, 0, 0x11);
const TEXT: RGBColor = RGBColor(0, 0, 0x12);

/// A plot.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) x: &'static str,
    pub(super) lines: Vec<Line>,
    /// Whether it shows latency by percentile: nines on the x axis, powers of ten on the y axis.
    pub(super) is_curve: bool,
}

/// A line of a plot.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Plot {
    pub(super) fn has_points(&self) -> bool {
        self.lines.iter().any(|line| line.points.len() > 1)
    }

    /// The picture; `None` when it cannot be drawn.
    pub(super) fn svg(&self) -> Option<String> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            let drawn = if self.is_curve { self.curve(&area) } else { self.over_time(&area) };
            drawn.and_then(|()| area.present().ok())?;
        }
        // The page scales the picture only without a fixed size.
        let (width, height) = SIZE;
        Some(svg.replacen(&format!("width=\"{width}\" height=\"{height}\" "), "", 1))
    }

    fn bounds(&self) -> (f64, f64, f64) {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let right = points().fold(0.0_f64, |most, point| most.max(point.0));
        let top = points().fold(0.0_f64, |most, point| most.max(point.1));
        let least = points().fold(f64::INFINITY, |least, point| least.min(point.1));
        (right.max(1e-3), top, least)
    }

    fn over_time(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Option<()> {
        let (right, top, _) = self.bounds();
        let top = if top > 0.0 { top * 1.1 } else { 1.0 };
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, 0.0..top)
            .ok()?;
        let style = TextStyle::from(("sans-serif", 12)).color(&TEXT);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(style)
            .x_desc(self.x)
            .y_labels(5)
            .y_label_formatter(&|value| short(*value))
            .draw()
            .ok()?;
        for (at, line) in self.lines.iter().enumerate() {
            let style = colour(at).stroke_width(2);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style)).ok()?;
        }
        Some(())
    }

    fn curve(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Option<()> {
        let (right, top, least) = self.bounds();
        let bottom = 10_f64.powf(least.max(1e-3).log10().floor());
        let top = 10_f64.powf((top * 1.01).max(bottom * 9.0).log10().ceil());
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, (bottom..top).log_scale())
            .ok()?;
        let style = TextStyle::from(("sans-serif", 12)).color(&TEXT);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(style)
            .x_labels(7)
            .x_label_formatter(&|nines| share(*nines))
            .y_labels(6)
            .y_label_formatter(&|value| short(*value))
            .draw()
            .ok()?;
        for (at, line) in self.lines.iter().enumerate() {
            let style = colour(at).stroke_width(2);
            let points = line.points.iter().map(|(x, y)| (*x, y.max(bottom)));
            chart.draw_series(LineSeries::new(points, style)).ok()?;
        }
        Some(())
    }
}

/// The colour of a line, by its number in the style sheet.
fn colour(at: usize) -> RGBColor {
    RGBColor(0, 0, 1 + at as u8)
}

/// "99.9 %" for three nines.
fn share(nines: f64) -> String {
    match nines.round() as u32 {
        0 => "0 %".to_owned(),
        6 => "all".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

/// A value formatted for an axis.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1} M", value / 1e6),
        value if value >= 1e4 => format!("{:.0} k", value / 1e3),
        value if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}
