//! Which tests of a program ask for the emulator: the ones in which a checking build of the kernels has something to check. The stage
//! `test` writes them down as it runs all of them; a list that is older than its program is none.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::project;

/// The constant of the same name in `shardgraph-cuemu`.
const ASKED_FOR: &str = "SHARDGRAPH_EMULATED_ASKED_FOR";

/// The list of one program.
pub(super) struct AskedFor {
    program: PathBuf,
    list: PathBuf,
}

impl AskedFor {
    pub(super) fn of(program: &Path) -> AskedFor {
        let folder = project::target().join("emulated/asked-for");
        AskedFor::within(&folder, program)
    }

    fn within(folder: &Path, program: &Path) -> AskedFor {
        let name = program.file_name().unwrap_or(OsStr::new("program"));
        AskedFor {
            program: program.to_owned(),
            list: folder.join(name),
        }
    }

    /// The list while the program runs.
    fn partial(&self) -> PathBuf {
        self.list.with_extension("partial")
    }

    /// Has the program write its list.
    pub(super) fn write_by(&self, command: &mut Command) -> Result<()> {
        let folder = self.list.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for old in [self.list.clone(), self.partial()] {
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| old.display().to_string());
                }
                _ => {}
            }
        }
        command.env(ASKED_FOR, self.partial());
        Ok(())
    }

    /// To be called when all tests of the program have passed. No list is left where none has asked.
    pub(super) fn finish(&self) -> Result<()> {
        let partial = self.partial();
        match fs::rename(&partial, &self.list) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.with_context(|| partial.display().to_string()),
        }
    }

    /// The tests that have asked; `None` where this program, as it is now, has not been run to its end.
    pub(super) fn tests(&self) -> Option<BTreeSet<String>> {
        let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
        let is_newer = modified(&self.list).ok()? > modified(&self.program).ok()?;
        let text = fs::read_to_string(&self.list).ok()?;
        is_newer.then(|| text.lines().map(str::to_owned).collect())
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use crate::project::Project;

    #[test]
    fn a_list_is_of_the_program_as_it_is() {
        let folder = project::target().join("xtask-asked-for");
        let program = folder.join("program-0123");
        fs::create_dir_all(&folder).unwrap();
        fs::write(&program, "").unwrap();
        let set_age = |age: i64| {
            let now = std::time::SystemTime::now();
            let seconds = std::time::Duration::from_secs(age.unsigned_abs());
            let time = if age < 0 {
                now + seconds
            } else {
                now - seconds
            };
            let file = fs::File::options().write(true).open(&program).unwrap();
            file.set_modified(time).unwrap();
        };
        set_age(9);
        let list = AskedFor::within(&folder.join("lists"), &program);
        let run = |script: &str| {
            let mut shell = process::command("/bin/sh");
            shell.args(["-c", script]);
            list.write_by(&mut shell).unwrap();
            process::check(&mut shell).unwrap();
        };

        run(&format!("printf 'b\\na\\nb\\n' >> ${ASKED_FOR}"));
        assert_eq!(list.tests(), None, "not finished");
        list.finish().unwrap();
        let found = list.tests().unwrap();
        assert!(found.iter().eq(["a", "b"]));

        // Built anew.
        set_age(-9);
        assert_eq!(list.tests(), None, "of an older program");

        set_age(9);
        run("true");
        list.finish().unwrap();
        assert_eq!(list.tests(), None, "nothing asked");
    }

    #[test]
    fn tests_write_by_this_variable() {
        let cuemu = Project::load()
            .unwrap()
            .text("crates/cuemu/src/lib.rs")
            .to_owned();
        let constant = format!("pub const ASKED_FOR: &str = \"{ASKED_FOR}\";");
        assert!(cuemu.contains(&constant), "{constant}");
    }
}
