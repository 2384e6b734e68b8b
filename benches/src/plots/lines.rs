//! Lines over the number of keys, from the record of `versus --only big --parts sizes`.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{HEAD_HEIGHT, LABEL_WIDTH, SIDES, WIDTH, begin, grouped, legend, text};

/// A chart: the field of a point that it shows.
struct Measure {
    file: &'static str,
    title: &'static str,
    field: &'static str,
}

const MEASURES: [Measure; 6] = [
    Measure {
        file: "size-disk.svg",
        title: "Bytes written to disk per random overwrite, by keys in the store",
        field: "disk_bytes_per_put",
    },
    Measure {
        file: "size-memory.svg",
        title: "Most anonymous memory meanwhile in MiB, by keys in the store",
        field: "anonymous_mib",
    },
    Measure {
        file: "size-throughput.svg",
        title: "Random overwrites per second, by keys in the store",
        field: "per_second",
    },
    Measure {
        file: "size-latency.svg",
        title: "Their 99th percentile in milliseconds, by keys in the store",
        field: "p99_ms",
    },
    Measure {
        file: "size-clean-restart.svg",
        title: "First read after a clean stop in milliseconds, by keys in the store",
        field: "clean_restart_ms",
    },
    Measure {
        file: "size-killed-restart.svg",
        title: "First read after kill -9 under load in milliseconds, by keys in the store",
        field: "killed_restart_ms",
    },
];

const PLOT_HEIGHT: f64 = 240.0;
const RIGHT_MARGIN: usize = 60;
/// Below this, numbers are shown with a decimal.
const WHOLE_FROM: f64 = 100.0;

/// Files and their text. The error says what the record lacks.
pub(super) fn draw(sides: &Map<String, Value>) -> Result<Vec<(&'static str, String)>, String> {
    let mut files = Vec::new();
    for measure in &MEASURES {
        let mut lines = Vec::new();
        for (side, (name, _)) in SIDES.iter().enumerate() {
            if let Some(points) = sides.get(*name).and_then(Value::as_array) {
                let points = points
                    .iter()
                    .filter_map(|point| Point::read(point, measure));
                let points = points.collect();
                lines.push(Line { side, points });
            }
        }
        if lines.iter().all(|line: &Line| line.points.is_empty()) {
            return Err(format!("no size has a figure {}", measure.field));
        }
        files.push((measure.file, chart(measure, &lines)));
    }
    Ok(files)
}

struct Line {
    side: usize,
    points: Vec<Point>,
}

#[derive(Clone, Copy)]
struct Point {
    keys: f64,
    value: f64,
}

impl Point {
    /// A figure that was not taken is not drawn.
    fn read(point: &Value, measure: &Measure) -> Option<Point> {
        let keys = point["keys"].as_f64()?;
        let value = point["figures"][measure.field].as_f64()?;
        Some(Point { keys, value })
    }
}

/// The keys have a logarithmic scale, the values start at zero.
fn chart(measure: &Measure, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let first = all()
        .map(|point| point.keys.log10())
        .fold(f64::MAX, f64::min);
    let last = all()
        .map(|point| point.keys.log10())
        .fold(f64::MIN, f64::max);
    let highest = all()
        .map(|point| point.value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let left = LABEL_WIDTH as f64;
    let width = (WIDTH - LABEL_WIDTH - RIGHT_MARGIN) as f64;
    let floor = HEAD_HEIGHT as f64 + PLOT_HEIGHT;
    let place = |point: &Point| {
        let along = (point.keys.log10() - first) / (last - first).max(f64::MIN_POSITIVE);
        let up = point.value / highest * PLOT_HEIGHT;
        ((left + along * width).round(), (floor - up).round())
    };

    let mut svg = begin(floor as usize + 40, measure.title);
    legend(&mut svg, |side| lines.iter().any(|line| line.side == side));
    let right = left + width;
    line(&mut svg, "#c0c7ce", 1, &[(left, floor), (right, floor)]);
    let mut named: Vec<f64> = all().map(|point| point.keys).collect();
    named.sort_by(f64::total_cmp);
    named.dedup();
    for keys in named {
        let (x, _) = place(&Point { keys, value: 0.0 });
        text(
            &mut svg,
            x as usize,
            floor as usize + 20,
            "middle",
            &grouped(keys, 0),
        );
    }
    for drawn in lines {
        let places: Vec<(f64, f64)> = drawn.points.iter().map(place).collect();
        line(&mut svg, SIDES[drawn.side].1, 2, &places);
        for (point, (x, y)) in drawn.points.iter().zip(places) {
            let digits = usize::from(point.value < WHOLE_FROM);
            let label = grouped(point.value, digits);
            text(&mut svg, x as usize, y as usize - 6, "middle", &label);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, colour: &str, width: usize, places: &[(f64, f64)]) {
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x},{y}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
        points.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::draw;

    #[test]
    fn a_measure_becomes_a_line_for_each_side() {
        let point = |keys: u64, written: f64| {
            json!({"keys": keys, "figures": {
                "per_second": 1000.0, "disk_bytes_per_put": written, "p99_ms": 1.0,
                "anonymous_mib": 20.0, "clean_restart_ms": 80.0, "killed_restart_ms": 300.0,
            }})
        };
        let record = json!({"sizes": {
            "etcd": [point(10_000, 900.0)],
            "stele": [point(10_000, 600.0), point(1_000_000, 1_200.0)],
        }});
        let files = draw(&record).unwrap();
        assert_eq!(files.len(), 6);
        let disk = &files[0].1;
        // The highest value is at the top, half of it half way up.
        assert!(disk.contains("points=\"150,184 700,64\""), "{disk}");
        for label in [">1,200<", ">600<", ">900<", ">10,000<", ">1,000,000<"] {
            assert!(disk.contains(label), "{disk}");
        }
    }

    #[test]
    fn a_record_without_figures_is_refused() {
        let record = json!({"sizes": {"stele": [{"keys": 10, "figures": {}}]}});
        assert!(draw(&record).is_err());
        assert!(draw(&json!({"sizes": {}})).is_err());
    }
}
