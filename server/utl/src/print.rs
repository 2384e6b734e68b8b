//! etcdutl's output formats.

use std::io::Write;

use crate::{EXIT_BAD_FEATURE, Failure};

/// One row of results, with its columns as each format names them.
pub(crate) trait Report {
    fn table(&self) -> Vec<(&'static str, String)>;
    fn fields(&self) -> Vec<(&'static str, String)>;
    fn json(&self) -> String;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Fields,
    Json,
    Protobuf,
    Simple,
    Table,
}

impl Format {
    pub(crate) fn parse(name: &str) -> Result<Format, Failure> {
        Ok(match name {
            "fields" => Format::Fields,
            "json" => Format::Json,
            "protobuf" => Format::Protobuf,
            "simple" => Format::Simple,
            "table" => Format::Table,
            _ => return Err(unsupported("unsupported output format")),
        })
    }
}

pub(crate) fn print(
    format: Format,
    report: &dyn Report,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => report.json() + "\n",
        Format::Fields => {
            let lines = report.fields().into_iter();
            lines
                .map(|(name, value)| format!("\"{name}\" : {value}\n"))
                .collect()
        }
        Format::Simple => {
            let values: Vec<String> = report.table().into_iter().map(|(_, value)| value).collect();
            values.join(", ") + "\n"
        }
        Format::Table => table(&report.table()),
        Format::Protobuf => return Err(unsupported("protobuf not supported as output format")),
    };
    out.write_all(text.as_bytes()).map_err(Failure::error)
}

fn unsupported(text: &str) -> Failure {
    Failure {
        text: text.to_owned(),
        code: EXIT_BAD_FEATURE,
    }
}

/// A box around one row: headings centred, values right-aligned.
fn table(row: &[(&str, String)]) -> String {
    let widths: Vec<usize> = row
        .iter()
        .map(|(name, value)| name.len().max(value.len()) + 2)
        .collect();
    let rule = |left: &str, between: &str, right: &str| {
        let bars: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        format!("{left}{}{right}\n", bars.join(between))
    };
    let line = |cells: Vec<String>| format!("│{}│\n", cells.join("│"));
    let mut head = Vec::new();
    let mut body = Vec::new();
    for ((name, value), width) in row.iter().zip(&widths) {
        head.push(format!("{:^width$}", name.to_uppercase()));
        body.push(format!("{value:>0$} ", width - 1));
    }
    [
        rule("┌", "┬", "┐"),
        line(head),
        rule("├", "┼", "┤"),
        line(body),
        rule("└", "┴", "┘"),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_looks_like_etcdutls() {
        let row = [
            ("hash", "ef961563".to_owned()),
            ("revision", "4".to_owned()),
            ("total size", "20 kB".to_owned()),
        ];
        let expected = "\
            ┌──────────┬──────────┬────────────┐\n\
            │   HASH   │ REVISION │ TOTAL SIZE │\n\
            ├──────────┼──────────┼────────────┤\n\
            │ ef961563 │        4 │      20 kB │\n\
            └──────────┴──────────┴────────────┘\n";
        assert_eq!(table(&row), expected);
    }
}
