//! The figures of both sides: one row per figure, with the goal.

#![expect(clippy::disallowed_methods, reason = "keeps the record")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::Result;
use super::super::options::Side;

#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// Number of keys, side, figures.
    sizes: Vec<(u64, Side, Value)>,
}

struct Row {
    name: String,
    aim: &'static str,
    values: Vec<(Side, String)>,
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
            let cell = |side| {
                let found = row.values.iter().find(|(of, _)| *of == side);
                found.map_or("–", |(_, value)| value.as_str())
            };
            let (etcd, stele) = (cell(Side::Etcd), cell(Side::Stele));
            let _ = writeln!(out, "| {} | {etcd} | {stele} | {} |", row.name, row.aim);
        }
        out
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

impl Figures<'_> {
    pub(super) fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.aim(name, value, "");
    }

    pub(super) fn number(&mut self, name: impl Into<String>, value: f64, digits: usize) {
        self.add(name, format!("{value:.digits$}"));
    }

    /// The figures of a store with so many keys, for the plots.
    pub(super) fn at_size(&mut self, keys: u64, figures: Value) {
        self.table.sizes.push((keys, self.side, figures));
    }

    /// A figure, and the goal for Stele.
    pub(super) fn aim(
        &mut self,
        name: impl Into<String>,
        value: impl Into<String>,
        aim: &'static str,
    ) {
        let (name, value) = (name.into(), value.into());
        eprintln!("{:5} {name}: {value}", self.side.name());
        let rows = &mut self.table.rows;
        let at = rows.iter().position(|row| row.name == name);
        let at = at.unwrap_or_else(|| {
            rows.push(Row {
                name,
                aim,
                values: Vec::new(),
            });
            rows.len() - 1
        });
        rows[at].values.push((self.side, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_name_share_a_row() {
        let mut table = Table::default();
        table.side(Side::Etcd).number("count ms", 320.0, 1);
        table.side(Side::Stele).aim("count ms", "0.2", "≤ 1");
        let text = table.markdown();
        assert!(text.contains("| count ms | 320.0 | 0.2 |"), "{text}");
    }
}
