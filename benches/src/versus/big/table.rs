//! The figures of both sides: one row per figure, with the goal.

#![expect(clippy::disallowed_methods, reason = "keeps the record")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::Result;
use super::super::options::Side;
use super::aim::{Aim, Bound, Verdict};

/// Follows each bound of an aim that Stele missed.
const MISSED: &str = "missed";

#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// Number of keys, side, figures.
    sizes: Vec<(u64, Side, Value)>,
}

struct Row {
    name: String,
    aim: Aim,
    figures: Vec<(Side, Figure)>,
}

struct Figure {
    number: f64,
    text: String,
}

/// Adds the figures of one side.
pub(super) struct Figures<'a> {
    table: &'a mut Table,
    pub(super) side: Side,
}

impl Table {
    pub(super) fn side(&mut self, side: Side) -> Figures<'_> {
        Figures { table: self, side }
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("| big store | etcd | stele | aim |\n|---|--:|--:|---|\n");
        for row in &self.rows {
            let cell = |side| row.figure(side).map_or("–", |figure| figure.text.as_str());
            let (etcd, stele) = (cell(Side::Etcd), cell(Side::Stele));
            let _ = writeln!(out, "| {} | {etcd} | {stele} | {} |", row.name, row.aim());
        }
        let _ = writeln!(out, "\n{}", self.verdict());
        out
    }

    pub(super) fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for row in &self.rows {
            let bounds = row.aim.bounds().iter();
            for is_met in bounds.filter_map(|bound| row.is_met(*bound)) {
                verdict.judged += 1;
                verdict.missed += usize::from(!is_met);
            }
        }
        verdict
    }

    /// Writes `big.md` into `folder`, and `sizes.json`, the record of stores of several sizes.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("big.md"), self.markdown())?;
        if !self.sizes.is_empty() {
            let record = serde_json::to_vec_pretty(&self.record_of_sizes())?;
            fs::write(folder.join("sizes.json"), record)?;
        }
        Ok(())
    }

    fn record_of_sizes(&self) -> Value {
        let mut sides: Map<String, Value> = Map::new();
        for (keys, side, figures) in &self.sizes {
            let points = sides.entry(side.name()).or_insert_with(|| json!([]));
            if let Value::Array(points) = points {
                points.push(json!({"keys": keys, "figures": figures}));
            }
        }
        json!({ "sizes": sides })
    }
}

impl Row {
    fn figure(&self, side: Side) -> Option<&Figure> {
        let found = self.figures.iter().find(|(of, _)| *of == side);
        found.map(|(_, figure)| figure)
    }

    /// Whether Stele's figure is within this bound, if both are known.
    fn is_met(&self, bound: Bound) -> Option<bool> {
        let number = |side| self.figure(side).map(|figure| figure.number);
        bound.is_met(number(Side::Stele)?, number(Side::Etcd))
    }

    /// What the table says of the aim.
    fn aim(&self) -> String {
        if let Aim::Prose(text) = self.aim {
            return text.to_owned();
        }
        let told = |bound: &Bound| match self.is_met(*bound) {
            Some(false) => format!("{bound} {MISSED}"),
            Some(true) | None => bound.to_string(),
        };
        let bounds: Vec<String> = self.aim.bounds().iter().map(told).collect();
        bounds.join(", ")
    }
}

impl Figures<'_> {
    /// A figure without an aim, with so many digits behind the point.
    pub(super) fn number(&mut self, name: impl Into<String>, number: f64, digits: usize) {
        self.aim(name, number, digits, "");
    }

    /// The figures of a store with so many keys, for the plots.
    pub(super) fn at_size(&mut self, keys: u64, figures: Value) {
        self.table.sizes.push((keys, self.side, figures));
    }

    /// A figure, and the goal for Stele.
    pub(super) fn aim(
        &mut self,
        name: impl Into<String>,
        number: f64,
        digits: usize,
        aim: impl Into<Aim>,
    ) {
        self.told(name, number, format!("{number:.digits$}"), aim);
    }

    /// The same for a figure that the table shows in other words.
    pub(super) fn told(
        &mut self,
        name: impl Into<String>,
        number: f64,
        text: String,
        aim: impl Into<Aim>,
    ) {
        let name = name.into();
        eprintln!("{:5} {name}: {text}", self.side.name());
        let rows = &mut self.table.rows;
        let at = rows.iter().position(|row| row.name == name);
        let at = at.unwrap_or_else(|| {
            rows.push(Row {
                name,
                aim: aim.into(),
                figures: Vec::new(),
            });
            rows.len() - 1
        });
        rows[at].figures.push((self.side, Figure { number, text }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::aim::{at_least_of_etcd, at_most, at_most_of_etcd};
    use super::*;

    #[test]
    fn figures_of_one_name_share_a_row() {
        let mut table = Table::default();
        table.side(Side::Etcd).number("count ms", 320.0, 1);
        table.side(Side::Stele).number("count ms", 0.2, 1);
        let text = table.markdown();
        assert!(text.contains("| count ms | 320.0 | 0.2 |  |"), "{text}");
    }

    #[test]
    fn a_missed_aim_is_marked_and_counted() {
        let mut table = Table::default();
        let mut stele = table.side(Side::Stele);
        stele.aim("met", 1.0, 0, at_most(1.0));
        stele.aim("not met", 2.0, 0, at_most(1.0));
        let (never, told) = (f64::INFINITY, "not in 90".to_owned());
        stele.told("never", never, told, at_most(60.0));
        stele.aim("in words", 3.0, 0, "bounded");
        let text = table.markdown();
        for row in [
            "| met | – | 1 | ≤ 1 |",
            "| not met | – | 2 | ≤ 1 missed |",
            "| never | – | not in 90 | ≤ 60 missed |",
            "| in words | – | 3 | bounded |",
        ] {
            assert!(text.contains(row), "{text}");
        }
        let end = "|\n\nStele missed 2 of 3 aims.\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn each_bound_of_a_row_is_judged_by_itself() {
        let bounds = || Aim::Bounds(vec![at_most(900.0), at_most_of_etcd(1.5)]);
        let mut table = Table::default();
        let mut etcd = table.side(Side::Etcd);
        etcd.aim("B/put", 500.0, 0, bounds());
        let mut stele = table.side(Side::Stele);
        stele.aim("B/put", 800.0, 0, bounds());
        let text = table.markdown();
        let row = "| B/put | 500 | 800 | ≤ 900, ≤ 1.5 × etcd's missed |";
        assert!(text.contains(row), "{text}");
        let (missed, judged) = (1, 2);
        assert_eq!(table.verdict(), Verdict { missed, judged });
    }

    #[test]
    fn nothing_is_missed_without_the_figure_that_it_takes() {
        let mut table = Table::default();
        let mut stele = table.side(Side::Stele);
        stele.aim("events/s", 7.0, 0, at_least_of_etcd(1.0));
        let mut etcd = table.side(Side::Etcd);
        etcd.aim("put ms", 99.0, 0, at_most(50.0));
        let text = table.markdown();
        assert!(text.contains("| events/s | – | 7 | ≥ etcd's |"), "{text}");
        assert!(text.contains("| put ms | 99 | – | ≤ 50 |"), "{text}");
        assert_eq!(table.verdict(), Verdict::default());
    }
}
