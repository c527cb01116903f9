//! Files inside a tar archive, as `tar` writes them: the classic, the ustar and the GNU form, and long names of pax.

use std::io::{self, Read};

use shardgraph_graph::unpacking_error;

use crate::{Error, ErrorKind};

const BLOCK: usize = 512;

/// The most bytes that an archive may hold: its files are in memory until one is chosen.
const MAX_BYTES: u64 = 4 << 30;

/// A regular file of an archive.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Whether a name is that of an archive, packed or not.
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

/// The regular files of an archive, in its order; what macOS adds beside each file (`._name`) is left out.
pub(crate) fn members(archive: &str, source: &mut dyn Read) -> Result<Vec<Member>, Error> {
    let mut source = Counted {
        archive,
        source,
        n_bytes: 0,
    };
    let mut members = Vec::new();
    let mut long_name = None;
    let mut long_size = None;
    while let Some(header) = source.header()? {
        let size = long_size.take().unwrap_or(header.size);
        let bytes = source.content(size)?;
        match header.kind {
            b'L' => long_name = Some(text_until_nul(&bytes)),
            b'x' => {
                long_name = pax_record(&bytes, "path").or(long_name);
                long_size = match pax_record(&bytes, "size") {
                    Some(size) => Some(size.parse().map_err(|_| source.damaged("a size in pax"))?),
                    None => None,
                };
            }
            b'0' | b'\0' | b'7' => {
                let name = long_name.take().unwrap_or(header.name);
                if !name.ends_with('/') && !file_name(&name).starts_with("._") {
                    members.push(Member { name, bytes });
                }
            }
            _ => long_name = None,
        }
    }
    // What packs an archive has its checksum at the end.
    io::copy(source.source, &mut io::sink()).map_err(|e| unpacking_error(e, archive, 0))?;
    Ok(members)
}

struct Header {
    name: String,
    kind: u8,
    size: u64,
}

struct Counted<'s> {
    archive: &'s str,
    source: &'s mut dyn Read,
    n_bytes: u64,
}

impl Counted<'_> {
    /// The next header; `None` at the two blocks of zeros that end an archive, or where the file ends between members.
    fn header(&mut self) -> Result<Option<Header>, Error> {
        let mut block = Vec::with_capacity(BLOCK);
        self.take(BLOCK as u64, &mut block)?;
        if block.is_empty() || block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if block.len() < BLOCK {
            return Err(self.damaged("it ends inside a header"));
        }
        let wrong_sum = || self.damaged("a header has another checksum");
        let sum = octal(&block[148..156]).ok_or_else(wrong_sum)?;
        let counted = block.iter().enumerate().map(|(i, &byte)| match i {
            148..156 => u64::from(b' '),
            _ => u64::from(byte),
        });
        if counted.sum::<u64>() != sum {
            return Err(wrong_sum());
        }
        let size = octal(&block[124..136]);
        let mut name = text_until_nul(&block[..100]);
        if &block[257..262] == b"ustar" && block[345] != 0 && block[263] != b' ' {
            name = format!("{}/{name}", text_until_nul(&block[345..500]));
        }
        Ok(Some(Header {
            name,
            kind: block[156],
            size: size.ok_or_else(|| self.damaged("a header has no size"))?,
        }))
    }

    /// The bytes of a member, and what pads them to whole blocks.
    fn content(&mut self, size: u64) -> Result<Vec<u8>, Error> {
        if size > MAX_BYTES - self.n_bytes.min(MAX_BYTES) {
            let reason = format!(
                "the archive holds more than {MAX_BYTES} bytes: unpack it, and name one of its files"
            );
            return Err(Error::at(ErrorKind::Memory, self.archive, 0, 0, &reason));
        }
        let mut bytes = Vec::new();
        self.take(size, &mut bytes)?;
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        let mut rest = Vec::new();
        self.take(padding, &mut rest)?;
        match (bytes.len() as u64, rest.len() as u64) {
            (n, p) if n == size && p == padding => Ok(bytes),
            _ => Err(self.damaged("it ends inside a file")),
        }
    }

    fn take(&mut self, n_bytes: u64, into: &mut Vec<u8>) -> Result<(), Error> {
        let read = (&mut *self.source).take(n_bytes).read_to_end(into);
        self.n_bytes += read.map_err(|e| unpacking_error(e, self.archive, 0))? as u64;
        Ok(())
    }

    fn damaged(&self, how: &str) -> Error {
        refuse(
            self.archive,
            &format!("the tar archive is damaged or ends early: {how}"),
        )
    }
}

fn refuse(archive: &str, reason: &str) -> Error {
    Error::at(ErrorKind::Graph, archive, 0, 0, reason)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn text_until_nul(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..len.unwrap_or(bytes.len())]).into_owned()
}

/// Octal digits between blanks and NULs.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(|c| c == ' ' || c == '\0');
    u64::from_str_radix(if digits.is_empty() { "0" } else { digits }, 8).ok()
}

/// The value of `key` in records `length key=value\n`.
fn pax_record(bytes: &[u8], key: &str) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().find_map(|record| {
        let (_, pair) = record.split_once(' ')?;
        let (name, value) = pair.split_once('=')?;
        (name == key).then(|| value.to_owned())
    })
}
