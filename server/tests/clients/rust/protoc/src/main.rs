//! As much of `protoc` as prost's build scripts call: `-I` folders, `-o` file, the two include
//! switches and the files to compile. The etcd-client crate compiles its .proto files when it is
//! built; with this program in `PROTOC` it does so without anything being installed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let mut includes: Vec<PathBuf> = Vec::new();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut output = None;
    let (mut with_imports, mut with_source) = (false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-I" => includes.push(arguments.next().ok_or("-I needs a folder")?.into()),
            "-o" => output = Some(arguments.next().ok_or("-o needs a file")?),
            "--include_imports" => with_imports = true,
            "--include_source_info" => with_source = true,
            other if other.starts_with('-') => return Err(format!("unknown: {other}").into()),
            file => files.push(file.into()),
        }
    }
    let mut compiler = protox::Compiler::new(includes)?;
    compiler.include_imports(with_imports).include_source_info(with_source).open_files(files)?;
    let descriptors = compiler.file_descriptor_set().encode_to_vec();
    Ok(std::fs::write(output.ok_or("-o is missing")?, descriptors)?)
}
