//! [`Load`]: what a guest finds in its file system when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::initrd::Initrd;
use super::modules;
use crate::programs::{needs_loader, said_by};

/// The guest's first programs.
const INIT: &str = include_str!("../../scripts/init.sh");
const START: &str = include_str!("../../scripts/start.sh");

/// Programs, files and kernel modules. Busybox is always there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    files: BTreeMap<String, PathBuf>,
    modules: Vec<&'static str>,
}

impl Load {
    /// Programs in /bin, by name.
    pub(crate) fn of(programs: &[(&str, &Path)]) -> Result<Self, String> {
        let mut load = Load::default();
        for (name, host) in programs {
            load.program(&format!("bin/{name}"), host)?;
        }
        Ok(load)
    }

    /// A program of the host, with the libraries that it needs at the places where it looks for them.
    pub(crate) fn program(&mut self, path: &str, host: &Path) -> Result<(), String> {
        let bytes = fs::read(host).map_err(|error| format!("{}: {error}", host.display()))?;
        if needs_loader(&bytes) {
            for library in libraries(host)? {
                let place = library.trim_start_matches('/').to_owned();
                self.files.insert(place, PathBuf::from(library));
            }
        }
        self.file(path, host);
        Ok(())
    }

    /// A file of the host.
    pub(crate) fn file(&mut self, path: &str, host: &Path) {
        self.files.insert(path.to_owned(), host.to_owned());
    }

    /// A module of the kernel, loaded at the start with those it needs.
    pub(crate) fn module(&mut self, name: &'static str) {
        self.modules.push(name);
    }

    /// The archive that the guest boots from, with a script that it runs.
    pub(super) fn pack(&self, kernel: &Path, script: &str) -> Result<Vec<u8>, String> {
        let mut files = self.files.clone();
        let modules = modules::with_needed(kernel, &self.modules)?;
        let mut names = String::new();
        for module in modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            names.push_str(&format!("/lib/modules/{name}\n"));
            files.insert(format!("lib/modules/{name}"), module);
        }
        files.insert("bin/busybox".to_owned(), PathBuf::from("/bin/busybox"));
        let mut initrd = Initrd::default();
        let always = ["proc", "sys", "dev", "tmp", "run", "etc", "lib/modules"];
        for folder in folders(files.keys().map(String::as_str), &always) {
            initrd.folder(&folder);
        }
        for (path, host) in &files {
            let packed = initrd.program_from(path, host);
            packed.map_err(|error| error.to_string())?;
        }
        initrd.program("init", INIT.as_bytes());
        initrd.program("start", START.as_bytes());
        initrd.program("modules", names.as_bytes());
        initrd.program("script", script.as_bytes());
        Ok(initrd.finish())
    }
}

/// Every folder above these files, and some more, parents first.
fn folders<'a>(files: impl Iterator<Item = &'a str>, more: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let parents = files.filter_map(|file| Some(file.rsplit_once('/')?.0));
    for folder in parents.chain(more.iter().copied()) {
        for (end, _) in folder.match_indices('/') {
            found.insert(folder[..end].to_owned());
        }
        found.insert(folder.to_owned());
    }
    found
}

/// The libraries that a program needs, and what loads them.
fn libraries(program: &Path) -> Result<Vec<String>, String> {
    let said = said_by(Command::new("ldd").arg(program))?;
    let words = said.lines().flat_map(str::split_whitespace);
    Ok(words
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect())
}
