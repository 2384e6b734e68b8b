//! `cargo plots RECORD FOLDER`: draws a `record.json` of `cargo versus` into a folder.
#![expect(
    clippy::disallowed_methods,
    reason = "a tool: reads a record and writes charts"
)]

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [record, folder] = &arguments[..] else {
        return Err("usage: plots RECORD.json FOLDER".into());
    };
    let record = serde_json::from_str(&fs::read_to_string(record)?)?;
    fs::create_dir_all(folder)?;
    for (name, svg) in benches::plots::draw(&record)? {
        fs::write(Path::new(folder).join(name), svg)?;
    }
    Ok(())
}
