//! Draws the records of `versus` as charts for the documentation: one file of SVG for each measure.
//! `record.json` becomes bars, a group for each load, a bar for each side; `sizes.json` becomes
//! lines over the size of the store.
//!
//! Loads differ by orders of magnitude, so bars share a scale only within their group, and each is
//! labelled with its number. The same record gives the same bytes.

mod lines;

use std::fmt::Write;

use serde_json::Value;

/// A chart: the field of a run that it shows.
struct Measure {
    file: &'static str,
    title: &'static str,
    field: &'static str,
    digits: usize,
}

const MEASURES: [Measure; 4] = [
    Measure {
        file: "throughput.svg",
        title: "Operations per second (longer is better)",
        field: "per_second",
        digits: 0,
    },
    Measure {
        file: "cpu.svg",
        title: "Server CPU per operation, in microseconds (shorter is better)",
        field: "cpu_us_per_op",
        digits: 2,
    },
    Measure {
        file: "latency.svg",
        title: "99th percentile, in milliseconds (shorter is better)",
        field: "p99_ms",
        digits: 2,
    },
    Measure {
        file: "disk.svg",
        title: "Bytes written to disk per put (shorter is better)",
        field: "disk_bytes_per_put",
        digits: 0,
    },
];

/// Sides by name, with the colour of their bars; others are not drawn.
const SIDES: [(&str, &str); 5] = [
    ("etcd", "#9aa5b1"),
    ("stele", "#2f6f9f"),
    ("etcd-tls", "#c9b27c"),
    ("stele-tls", "#b5651d"),
    ("sealed", "#5b8c5a"),
];

const WIDTH: usize = 760;
const LABEL_WIDTH: usize = 150;
const BAR_WIDTH_MAX: f64 = 500.0;
const BAR_HEIGHT: usize = 16;
const GROUP_GAP: usize = 12;
const HEAD_HEIGHT: usize = 64;

/// Files and their text. The error says what the record lacks.
pub fn draw(record: &Value) -> Result<Vec<(&'static str, String)>, String> {
    if let Some(sides) = record["sizes"].as_object() {
        return lines::draw(sides);
    }
    let loads = record["loads"]
        .as_array()
        .ok_or("the record has no loads")?;
    let mut files = Vec::new();
    for measure in &MEASURES {
        let groups: Vec<Group<'_>> = loads
            .iter()
            .map(|load| group(load, measure))
            .collect::<Result<_, _>>()?;
        let groups: Vec<Group<'_>> = groups.into_iter().filter(|g| !g.bars.is_empty()).collect();
        if !groups.is_empty() {
            files.push((measure.file, chart(measure, &groups)));
        }
    }
    if files.is_empty() {
        return Err("the record has no runs".into());
    }
    Ok(files)
}

struct Group<'a> {
    load: &'a str,
    bars: Vec<Bar>,
}

struct Bar {
    side: usize,
    value: f64,
}

fn group<'a>(load: &'a Value, measure: &Measure) -> Result<Group<'a>, String> {
    let name = load["name"].as_str().ok_or("a load has no name")?;
    let sides = load["runs"].as_object().ok_or("a load has no runs")?;
    let bars = SIDES.iter().enumerate().filter_map(|(side, (name, _))| {
        let runs = sides.get(*name)?.as_array()?;
        let values = runs.iter().filter_map(|run| run[measure.field].as_f64());
        let value = median(values.collect())?;
        Some(Bar { side, value })
    });
    Ok(Group {
        load: name,
        bars: bars.collect(),
    })
}

/// The middle value, or the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

fn chart(measure: &Measure, groups: &[Group<'_>]) -> String {
    let bars: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = HEAD_HEIGHT + bars * BAR_HEIGHT + groups.len() * GROUP_GAP;
    let mut svg = begin(height, measure.title);
    legend(&mut svg, |side| {
        let mut bars = groups.iter().flat_map(|group| &group.bars);
        bars.any(|bar| bar.side == side)
    });
    let mut top = HEAD_HEIGHT;
    for group in groups {
        let values = group.bars.iter().map(|bar| bar.value);
        let longest = values.fold(f64::MIN_POSITIVE, f64::max);
        let middle = top + group.bars.len() * BAR_HEIGHT / 2 + 4;
        text(&mut svg, LABEL_WIDTH - 10, middle, "end", group.load);
        for bar in &group.bars {
            let width = (bar.value / longest * BAR_WIDTH_MAX).round().max(1.0) as usize;
            rect(
                &mut svg,
                LABEL_WIDTH,
                top + 1,
                width,
                BAR_HEIGHT - 2,
                bar.side,
            );
            let label = grouped(bar.value, measure.digits);
            text(&mut svg, LABEL_WIDTH + width + 6, top + 12, "start", &label);
            top += BAR_HEIGHT;
        }
        top += GROUP_GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

fn begin(height: usize, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    text(&mut svg, 10, 20, "start", title);
    svg
}

fn legend(svg: &mut String, is_drawn: impl Fn(usize) -> bool) {
    let mut left = LABEL_WIDTH;
    for (side, (name, _)) in SIDES.iter().enumerate() {
        if is_drawn(side) {
            rect(svg, left, 34, 12, 12, side);
            text(svg, left + 18, 44, "start", name);
            left += 90;
        }
    }
}

fn rect(svg: &mut String, x: usize, y: usize, width: usize, height: usize, side: usize) {
    let (_, colour) = SIDES[side];
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
    );
}

fn text(svg: &mut String, x: usize, y: usize, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// With a comma after each thousand.
fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(per_second: f64) -> Value {
        json!({"per_second": per_second, "p99_ms": 1.5, "cpu_us_per_op": 20.0, "disk_bytes_per_put": null})
    }

    fn record() -> Value {
        json!({"about": {}, "loads": [{
            "name": "put-100",
            "runs": {"etcd": [run(11_000.0), run(12_000.0), run(13_000.0)], "stele": [run(24_000.0)]},
        }]})
    }

    #[test]
    fn each_measure_that_was_taken_becomes_a_chart_of_medians() {
        let files = draw(&record()).unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["throughput.svg", "cpu.svg", "latency.svg"]);
        let throughput = &files[0].1;
        assert!(throughput.contains(">12,000</text>"), "{throughput}");
        assert!(throughput.contains(">24,000</text>"), "{throughput}");
        // etcd is half as fast, so its bar is half as long.
        for width in ["width=\"250\"", "width=\"500\""] {
            assert!(throughput.contains(width), "{throughput}");
        }
        assert_eq!(throughput.matches("<text").count(), 1 + 2 + 1 + 2);
    }

    #[test]
    fn a_record_without_runs_is_refused() {
        assert!(draw(&json!({})).is_err());
        assert!(draw(&json!({"loads": []})).is_err());
        assert!(draw(&json!({"loads": [{"name": "x", "runs": {}}]})).is_err());
    }

    #[test]
    fn thousands_are_grouped() {
        for (value, digits, text) in [
            (0.5, 2, "0.50"),
            (999.0, 0, "999"),
            (1_000.0, 0, "1,000"),
            (1_234_567.8, 1, "1,234,567.8"),
        ] {
            assert_eq!(grouped(value, digits), text);
        }
    }
}
