//! The columns of custom resources, as their definitions name them.

use machinery::go_json;
use machinery::object;
use machinery::schema::Kind;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use super::column;
use crate::registry::printers::{NAME, UNKNOWN};
use crate::resources::custom::Column;
use crate::resources::json_path::{JsonPath, LOOKS_MAX};
use crate::storage::cells::Cell;

/// What is shown for a date that is none.
const INVALID: &str = "<invalid>";
/// What is shown as text for a null.
const NO_VALUE: &str = "<no value>";
/// Upper bound of the text in one row, but for the last cell that has any. A definition has as many
/// columns as there is room for in a body, and each of them may show the whole object.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Upper bound of the cells of one table, in bytes: a list may have any number of rows.
const TABLE_BYTES_MAX: usize = 512 << 20;
/// Upper bound of the values that the paths of one table may look at.
const TABLE_LOOKS_MAX: usize = 100 * LOOKS_MAX;
/// Most cells of a row that are left empty when its table has no more room: so many take about as
/// much as the metadata in the row.
const EMPTY_CELLS_MAX: usize = 32;

/// What the cells of one table may still take.
pub(crate) struct Room {
    looks: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            looks: TABLE_LOOKS_MAX,
            bytes: TABLE_BYTES_MAX,
        }
    }
}

/// The columns, with the name before them.
pub(super) fn definitions(kind: &Kind, columns: &[(Column, JsonPath)]) -> Vec<Value> {
    let more = columns.iter().map(|(column, _)| {
        let description = match column.description.as_str() {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                column.json_path
            ),
            description => description.to_owned(),
        };
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": description, "priority": column.priority,
        })
    });
    [column(kind, NAME)].into_iter().chain(more).collect()
}

/// The cells of an object. Those for which a bound of the row or of the table leaves no room show
/// nothing: clients look for a cell at the place of its column. Only the rows of a table that has
/// very many columns end with the name then, because even cells without a value take room.
pub(super) fn cells(columns: &[(Column, JsonPath)], object: &Value, room: &mut Room) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![object::name(object).into()];
    if room.looks == 0 || room.bytes == 0 {
        if columns.len() <= EMPTY_CELLS_MAX {
            cells.resize(columns.len() + 1, Value::Null.into());
        }
        return cells;
    }
    let looks_max = room.looks.min(LOOKS_MAX);
    let (mut looks, mut text_room) = (looks_max, TEXT_BYTES_MAX);
    cells.extend(columns.iter().map(|(column, path)| {
        let value = path.first(object, &mut looks).filter(|_| text_room > 0);
        let shown = value.map_or_else(|| Value::Null.into(), |value| cell(&column.kind, value));
        if let Cell::Fixed(Value::String(text)) = &shown {
            text_room = text_room.saturating_sub(text.len());
        }
        shown
    }));
    room.looks -= looks_max - looks;
    let bytes = cells.len() * size_of::<Value>() + TEXT_BYTES_MAX - text_room;
    room.bytes = room.bytes.saturating_sub(bytes);
    cells
}

/// A value as its column shows it; nothing if it is of another type.
fn cell(kind: &str, value: &Value) -> Cell {
    match (kind, value) {
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", Value::Null) => NO_VALUE.into(),
        ("string", value) => go_json::encoded(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => number.into(),
            (None, number) => number
                .map_or(Value::Null, |number| (number as i64).into())
                .into(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone().into(),
        ("date", Value::String(text)) => match Timestamp::parse(text) {
            Some(then) => Cell::ago(then),
            // As in Kubernetes, both are a time that was not set.
            None if ["", "null"].contains(&text.as_str()) => UNKNOWN.into(),
            None => INVALID.into(),
        },
        _ => Value::Null.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::custom::Definition;

    fn read(kind: &str, description: &str, json_path: &str) -> (Column, JsonPath) {
        let column = Column {
            name: "Told".to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: description.to_owned(),
            priority: 0,
            json_path: json_path.to_owned(),
        };
        (column, JsonPath::parse(json_path).unwrap())
    }

    #[test]
    fn a_column_without_a_text_is_described_by_its_path() {
        let widgets = Definition::widgets().resources(None).unwrap().remove(0);
        let columns = [
            read("string", "", ".spec.color"),
            read("string", "So.", ".spec"),
        ];
        let shown = definitions(&widgets.kind, &columns);
        let described = "Custom resource definition column (in JSONPath format): .spec.color";
        assert_eq!(shown[1]["description"], described);
        assert_eq!(shown[2]["description"], "So.");
    }

    #[test]
    fn cells_of_values_that_are_not_set_are_those_of_kubernetes() {
        let now = Timestamp::default();
        for (kind, value, shown) in [
            ("string", Value::Null, json!("<no value>")),
            ("integer", Value::Null, Value::Null),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!("soon"), json!("<invalid>")),
            ("boolean", json!("true"), Value::Null),
        ] {
            let object = json!({"metadata": {"name": "a"}, "status": {"told": value}});
            let columns = [read(kind, "", ".status.told")];
            let cells = cells(&columns, &object, &mut Room::default());
            assert_eq!(cells[1].at(now), shown, "{kind} {value}");
        }
    }

    #[test]
    fn a_row_has_an_end_however_many_columns_there_are() {
        let spec = json!({"text": "x".repeat(1 << 20), "list": vec![1; 1000]});
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let row = |path: &str, count: usize| {
            let columns = vec![read("string", "", path); count];
            cells(&columns, &object, &mut Room::default())
        };
        let texts = row(".spec.text", 100);
        let texts = texts.iter().map(|cell| match cell {
            Cell::Fixed(Value::String(text)) => text.len(),
            _ => 0,
        });
        let bytes: usize = texts.sum();
        assert!(bytes < TEXT_BYTES_MAX + (2 << 20), "{bytes}");
        let items = row(".spec.list[*]", 2000);
        assert_eq!(items[1], Cell::from("1"));
        assert_eq!(items[2000], Cell::from(Value::Null));
    }

    #[test]
    fn a_table_has_an_end_however_many_rows_there_are() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"text": "x".repeat(1000)}});
        let rows = |columns: usize, mut room: Room| {
            let columns = vec![read("string", "", ".spec.text"); columns];
            let rows = (0..100).map(|_| cells(&columns, &object, &mut room));
            rows.collect::<Vec<_>>()
        };
        let whole = rows(10, Room::default());
        assert_eq!(whole[0].len(), 11);
        assert!(whole.iter().all(|row| *row == whole[0]));
        for (looks, bytes) in [(TABLE_LOOKS_MAX, 25_000), (100, TABLE_BYTES_MAX)] {
            let usual = rows(10, Room { looks, bytes });
            assert_eq!(usual[0], whole[0]);
            // As wide as the table, which Kubernetes says of all rows.
            assert_eq!(usual[99].len(), 11);
            assert_eq!(usual[99][0], Cell::from("a"));
            let mut others = usual[99][1..].iter();
            assert!(others.all(|cell| *cell == Cell::from(Value::Null)));
            let wide = rows(EMPTY_CELLS_MAX + 1, Room { looks, bytes });
            assert_eq!(wide[0].len(), EMPTY_CELLS_MAX + 2);
            assert_eq!(wide[99], [Cell::from("a")]);
        }
    }
}
