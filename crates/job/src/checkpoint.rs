//! A checkpoint in memory: the named files of one step, to be written to a run's folder, read from there, or sent to ranks
//! that do not see the folder.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardgraph_storage::{Decoder, Encoder};

use crate::manifest::Part;
use crate::{Error, Tensors, manifest};

const SCHEMA_VERSION: &str = "schema_version";

/// The files of one step.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use shardgraph_job::{Checkpoint, Tensors};
///
/// #[derive(Serialize, Deserialize)]
/// struct Counters { n_episodes: u64 }
///
/// let mut state = Tensors::new();
/// state.add_f32("params", &[0.5, -1.0])?;
/// let mut checkpoint = Checkpoint::new(40);
/// checkpoint.add("state.safetensors", state.to_bytes()?)?;
/// checkpoint.add_json("run.json", 1, &Counters { n_episodes: 3 })?;
///
/// let received = Checkpoint::from_bytes(&checkpoint.to_bytes())?; // on another rank
/// assert_eq!(received.tensors("state.safetensors")?.f32s("params")?, [0.5, -1.0]);
/// assert_eq!(received.json::<Counters>("run.json", 1)?.n_episodes, 3);
/// # Ok::<(), shardgraph_job::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    step: u64,
    /// Its folder, for messages.
    origin: String,
    /// Names and bytes, in the order of the MANIFEST.
    files: Vec<(String, Vec<u8>)>,
    /// Names and lengths of files in the run's folder that belong to it: too large for memory.
    files_beside: Vec<(String, u64)>,
}

/// A JSON file, its version first.
#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    value: &'a T,
}

impl Checkpoint {
    /// A checkpoint of a step, without files.
    pub fn new(step: u64) -> Checkpoint {
        Checkpoint {
            step,
            origin: manifest::folder_name(step),
            files: Vec::new(),
            files_beside: Vec::new(),
        }
    }

    /// The newest checkpoint in a run's folder that is whole: there are all the files that its MANIFEST names, `files` among them,
    /// with the lengths and hashes that it says. None where no checkpoint was ever finished.
    ///
    /// This only reads; a run that goes on takes its folder with [`Folder::of_old_run`](crate::Folder::of_old_run).
    ///
    /// # Errors
    /// When the folder cannot be read, or every finished checkpoint is damaged: then the damage of the newest.
    pub fn newest(folder: &Path, files: &[&str]) -> Result<Option<Checkpoint>, Error> {
        manifest::newest(folder, files, Part::Whole)
    }

    /// As [`Checkpoint::newest`] with these `files` alone: no other is read or checked. For what is wanted before the run takes its folder, such as its
    /// settings, where the rest may be large.
    ///
    /// # Errors
    /// As [`Checkpoint::newest`], of these files.
    pub fn newest_files(folder: &Path, files: &[&str]) -> Result<Option<Checkpoint>, Error> {
        manifest::newest(folder, files, Part::Named)
    }

    /// Damages of the checkpoints that are newer than the newest whole one, which
    /// [`Checkpoint::newest`] passes over; empty where no checkpoint is whole.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn passed_over(folder: &Path) -> Result<Vec<Error>, Error> {
        manifest::passed_over(folder)
    }

    pub(crate) fn set_origin(&mut self, origin: &Path) {
        self.origin = origin.display().to_string();
    }

    /// The step that it was made after.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The folder that it was read from, for messages; only its name where it was not read.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Refuses to go on on another kind of device than the run's own, because the bits would not be those of a run that never stopped.
    ///
    /// # Errors
    /// [`Error::Device`] where `given`, the kind that there is now, is not `of_run`, the one that the checkpoint was made on.
    pub fn check_device(&self, of_run: &str, given: &str) -> Result<(), Error> {
        if of_run == given {
            return Ok(());
        }
        Err(Error::Device {
            path: self.origin.clone(),
            expected: of_run.to_owned(),
            given: given.to_owned(),
        })
    }

    /// Adds a file.
    ///
    /// # Errors
    /// [`Error::Refused`] where the name is taken, or is not that of a visible file in the checkpoint's own folder.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), Error> {
        self.check_name(name)?;
        self.files.push((name.to_owned(), bytes));
        Ok(())
    }

    /// Adds a file of so many bytes that lies in the run's folder already, beside the checkpoints, and outlasts a power cut: tables that are
    /// larger than memory. Several checkpoints may name it.
    ///
    /// The MANIFEST has its length alone; whoever reads it compares a checksum that it has inside. With such files a checkpoint is the only
    /// one of its run, which removes the files that no checkpoint names any more
    /// ([`Trainer::checkpoint_written`](crate::Trainer::checkpoint_written)).
    ///
    /// # Errors
    /// As [`Checkpoint::add`].
    pub fn add_beside(&mut self, name: &str, bytes: u64) -> Result<(), Error> {
        self.check_name(name)?;
        self.files_beside.push((name.to_owned(), bytes));
        Ok(())
    }

    pub(crate) fn files_beside(&self) -> &[(String, u64)] {
        &self.files_beside
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let refused = |why: &str| {
            let reason = format!("the file name `{name}`: {why}");
            Err(Error::refused("Checkpoint::add", reason))
        };
        if !manifest::is_file_name(name) {
            return refused(
                "expected letters, digits, `.`, `-` and `_`, no dot at the start, and not MANIFEST",
            );
        }
        let beside = self.files_beside.iter().map(|(name, _)| name);
        let mut names = self.files.iter().map(|(name, _)| name).chain(beside);
        match names.any(|other| other == name) {
            true => refused("the checkpoint has such a file already"),
            false => Ok(()),
        }
    }

    /// Adds a struct as a JSON file, with the version of its fields before them.
    ///
    /// # Errors
    /// As [`Checkpoint::add`], and where the value is no struct or map, or could not be read back: JSON has no form for NaN and
    /// infinity.
    pub fn add_json<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        schema_version: u32,
        value: &T,
    ) -> Result<(), Error> {
        let versioned = Versioned {
            schema_version,
            value,
        };
        let text = serde_json::to_vec_pretty(&versioned).map_err(|e| {
            let reason = format!("`{name}` has no form as a JSON object: {e}");
            Error::refused("Checkpoint::add_json", reason)
        })?;
        self.add(name, text)?;
        let read_back = self.json::<T>(name, schema_version);
        read_back.map(drop).map_err(|e| {
            self.files.pop();
            let reason = format!(
                "what was written could not be read back: {e}; give finite numbers, and a type that reads what it writes"
            );
            Error::refused("Checkpoint::add_json", reason)
        })
    }

    /// The files' names and bytes, in the order in which they were added.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let pairs = self.files.iter();
        pairs.map(|(name, bytes)| (name.as_str(), &bytes[..]))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// When the checkpoint has no such file.
    pub fn file(&self, name: &str) -> Result<&[u8], Error> {
        let mut files = self.files();
        let found = files.find(|(other, _)| *other == name);
        found.map(|(_, bytes)| bytes).ok_or_else(|| {
            let reason = format!("the MANIFEST names no {name}");
            Error::damaged(&self.origin, reason)
        })
    }

    /// The struct of a JSON file.
    ///
    /// # Errors
    /// When there is no such file, it has another version, or its fields are not those of `T`.
    pub fn json<T: DeserializeOwned>(&self, name: &str, schema_version: u32) -> Result<T, Error> {
        let path = format!("{}/{name}", self.origin);
        let wrong = |e: serde_json::Error| Error::damaged(&path, e.to_string());
        let mut fields: Map<String, Value> =
            serde_json::from_slice(self.file(name)?).map_err(wrong)?;
        let given = fields.remove(SCHEMA_VERSION).unwrap_or(Value::Null);
        if given != schema_version {
            return Err(Error::Version {
                expected: schema_version,
                given: given.to_string(),
                path,
            });
        }
        T::deserialize(Value::Object(fields)).map_err(wrong)
    }

    /// The tensors of a safetensors file.
    ///
    /// # Errors
    /// When there is no such file, or it is something else.
    pub fn tensors(&self, name: &str) -> Result<Tensors<'_>, Error> {
        Tensors::of_file(format!("{}/{name}", self.origin), self.file(name)?)
    }

    /// As bytes for another rank, without files beside it: the step and the number of files, then each name and content after its length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.number(self.step);
        out.number(self.files.len() as u64);
        out.text(&self.origin);
        for (name, content) in &self.files {
            out.text(name);
            out.bytes(content);
        }
        out.finish()
    }

    /// Of the bytes that [`Checkpoint::to_bytes`] made.
    ///
    /// # Errors
    /// [`Error::Torn`] for any other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Checkpoint, Error> {
        decode(bytes).map_err(|_| Error::Torn)
    }
}

fn decode(bytes: &[u8]) -> Result<Checkpoint, Error> {
    let mut input = Decoder::new(bytes);
    let mut checkpoint = Checkpoint::new(input.number()?);
    let n_files: u64 = input.number()?;
    checkpoint.origin = input.text()?.to_owned();
    for _ in 0..n_files {
        checkpoint.add(input.text()?, input.bytes()?.to_vec())?;
    }
    input.finish()?;
    Ok(checkpoint)
}
