//! Files inside a tar archive.

use std::io::{self, Read};

use shardgraph_storage::unpacking_error;

use crate::Error;

/// The most bytes that an archive may hold: its files are in memory until one is chosen.
const MAX_BYTES: u64 = 4 << 30;

/// A regular file of an archive.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// True for the name of an archive, packed or not.
pub(crate) fn is_archive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let packed = [".tar", ".tar.gz", ".tar.zst", ".tgz"];
    packed.iter().any(|suffix| name.ends_with(suffix))
}

/// The one file of an archive that is asked for, else the only one, else the one called `train`.
///
/// # Errors
/// A damaged archive; none or several files that could be meant, with their names.
pub(crate) fn choose(
    archive: &str,
    members: Vec<Member>,
    asked: Option<&str>,
) -> Result<Member, Error> {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let listed = names.join(", ");
    let is_meant = |name: &str| match asked {
        Some(asked) => name == asked || file_name(name) == asked || stem(name) == asked,
        None => names.len() == 1 || stem(name) == "train",
    };
    let mut meant = (0..names.len()).filter(|&idx| is_meant(names[idx]));
    let reason = match (meant.next(), meant.next(), asked) {
        (Some(chosen), None, _) => {
            let chosen = members.into_iter().nth(chosen);
            return chosen.ok_or_else(|| refuse(archive, "the archive is empty"));
        }
        _ if names.is_empty() => "the archive holds no file".to_owned(),
        (_, _, Some(asked)) => {
            format!("expected one file called `{asked}` in the archive, which holds {listed}")
        }
        _ => {
            format!("name one of the archive's files (`member`; --member of the program): {listed}")
        }
    };
    Err(refuse(archive, &reason))
}

/// The name without folders and endings.
fn stem(name: &str) -> &str {
    let name = file_name(name);
    name.split('.').next().unwrap_or(name)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The regular files of an archive, in its order, without the files that macOS adds beside each
/// (`._name`).
pub(crate) fn members(archive: &str, source: &mut dyn Read) -> Result<Vec<Member>, Error> {
    let damaged = |error: io::Error| {
        let reason = format!("the tar archive is damaged or ends early: {error}");
        refuse(archive, &reason)
    };
    let mut n_bytes = 0;
    let mut members = Vec::new();
    let mut limited = Limited {
        source: &mut *source,
        left: MAX_BYTES,
    };
    let mut tar = tar::Archive::new(&mut limited);
    for entry in tar.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let size = entry.size();
        // By the header, before anything is read: a small file may promise any size.
        if size > MAX_BYTES - n_bytes {
            return Err(Error::at(Error::Memory, archive, 0, 0, &too_large()));
        }
        n_bytes += size;
        let kind = entry.header().entry_type();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let is_file = kind.is_file() || kind.is_contiguous();
        if !is_file || name.ends_with('/') || file_name(&name).starts_with("._") {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 != size {
            return Err(damaged(io::Error::other("it ends inside a file")));
        }
        members.push(Member { name, bytes });
    }
    // A packed archive has its checksum at the end.
    io::copy(source, &mut io::sink()).map_err(|e| unpacking_error(e, archive, 0))?;
    Ok(members)
}

fn too_large() -> String {
    format!("the archive holds more than {MAX_BYTES} bytes: unpack it, and name one of its files")
}

/// A reader that fails beyond its limit: names and extensions are read whole, and may claim any
/// length.
struct Limited<'s> {
    source: &'s mut dyn Read,
    left: u64,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other(too_large()));
        }
        let n_bytes = (buffer.len() as u64).min(self.left) as usize;
        let n_read = self.source.read(&mut buffer[..n_bytes])?;
        self.left -= n_read as u64;
        Ok(n_read)
    }
}

fn refuse(archive: &str, reason: &str) -> Error {
    Error::at(Error::Graph, archive, 0, 0, reason)
}
