//! `kubectl pinfold snapshot`: writes what `--nodes` needs to a file.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use pinfold_kube::api_object::ApiObject;
use pinfold_kube::json_value::JsonValue;
use pinfold_kube::snapshot::{Scrambler, reduce};
use pinfold_render::text::count;
use pinfold_terminal::{Failure, object_files, output};

use super::live;
use crate::args::SnapshotArgs;

pub(crate) fn run(args: &SnapshotArgs) -> Result<ExitCode, Failure> {
    let mut objects = objects(args)?;
    if args.scramble {
        let mut scrambler = Scrambler::default();
        objects
            .iter_mut()
            .for_each(|object| scrambler.collect(object));
        scrambler.choose();
        objects
            .iter_mut()
            .for_each(|object| scrambler.scramble(object));
    }
    write(&args.file, &objects)?;
    output::remark(&count(objects.len(), "object", "objects"));
    Ok(ExitCode::SUCCESS)
}

/// The reduced objects of the files or of the API server. Pods that have ended are left out.
fn objects(args: &SnapshotArgs) -> Result<Vec<JsonValue>, Failure> {
    let mut objects = Vec::new();
    let mut left_out = 0;
    if args.objects.nodes.is_empty() {
        let notes =
            live::each_object(
                &args.objects,
                &mut |kind, version, json| match ApiObject::parse(kind, version, json) {
                    Ok(object) => objects.extend(reduce(&object.document)),
                    Err(_) => left_out += 1,
                },
            )?;
        for note in notes {
            output::remark(&format!("note: {note}"));
        }
    }
    for path in &args.objects.nodes {
        object_files::read(path, &mut |_, document| {
            match reduce(document) {
                Some(object) => objects.push(object),
                None => left_out += 1,
            }
            Ok(())
        })?;
    }
    objects.retain(|object| !has_ended(object));
    if left_out > 0 {
        let left_out = count(left_out, "object of another kind", "objects of other kinds");
        output::remark(&format!("left out {left_out}"));
    }
    Ok(objects)
}

fn has_ended(object: &JsonValue) -> bool {
    let phase = object.get("status").and_then(|status| status.get("phase"));
    matches!(phase, Some(JsonValue::Text(phase)) if phase == "Succeeded" || phase == "Failed")
}

/// Writes the objects as a list, one per line.
fn write(path: &Path, objects: &[JsonValue]) -> Result<(), Failure> {
    let failure = |error: io::Error| {
        Failure::Environment(format!("cannot write {}: {error}", path.display()))
    };
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        list(&mut text, objects).map_err(failure)?;
        return output::print_raw(&String::from_utf8_lossy(&text));
    }
    let mut content = Vec::new();
    match path.extension().is_some_and(|end| end == "gz") {
        true => {
            let mut zip = GzEncoder::new(&mut content, Compression::default());
            list(&mut zip, objects).map_err(failure)?;
            zip.finish().map_err(failure)?;
        }
        false => list(&mut content, objects).map_err(failure)?,
    }
    pinfold_files::replace(path, &content).map_err(failure)
}

fn list(to: &mut dyn Write, objects: &[JsonValue]) -> io::Result<()> {
    to.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
    for (index, object) in objects.iter().enumerate() {
        let comma = if index == 0 { "\n" } else { ",\n" };
        write!(to, "{comma}{}", object.to_json())?;
    }
    to.write_all(b"\n]}\n")
}
