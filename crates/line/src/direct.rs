//! Files of runs of bytes, each at a multiple of 4096: large ones go past the page cache, straight between the disk and rows.
//!
//! Rows that go to disk are read again only when the rest of a table has passed through memory, so keeping them in the page cache
//! costs a copy and pushes out what is wanted. A file system that refuses (tmpfs), another operating system, and files shorter than
//! [`DIRECT_FROM`] go through the page cache. So do files whose first direct transfer is refused.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that is worth going past the page cache.
const DIRECT_FROM: u64 = 16 << 20;
/// Bytes that are looked at and transferred together: past the page cache, and through it, where they stay in the processor's cache.
const PIECES: (usize, usize) = (16 << 20, 256 << 10);
/// What addresses, offsets and lengths are multiples of.
const ALIGN: usize = 4096;

/// `O_DIRECT` of the kernel's fcntl.h.
const DIRECT: Option<i32> = if !cfg!(target_os = "linux") {
    None
} else if cfg!(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "riscv64"
)) {
    Some(0o40000)
} else if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
    Some(0o200_000)
} else {
    None
};

/// What a direct transfer would fail with, in tests of a file system that refuses it.
fn refusal(_is_direct: bool) -> io::Result<()> {
    #[cfg(test)]
    if _is_direct && tests::REFUSES.get() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}

/// Memory for what cannot be transferred in place; it begins at a multiple of [`ALIGN`]. One for all files that are written and read one
/// after the other.
#[derive(Debug, Default)]
pub(crate) struct Bounce {
    bytes: Vec<u8>,
}

impl Bounce {
    /// Bytes that pass at a time, a multiple of [`ALIGN`].
    pub(crate) const LEN: usize = 1 << 20;

    /// So many bytes, at most [`Bounce::LEN`]; what they hold is of no importance.
    fn take(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; Bounce::LEN + ALIGN];
        }
        let start = self.bytes.as_ptr().align_offset(ALIGN);
        &mut self.bytes[start..][..len]
    }
}

/// An open file, and where its next run begins.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    options: OpenOptions,
    file: File,
    is_direct: bool,
    /// A multiple of [`ALIGN`].
    at: u64,
}

impl Place {
    /// Opens with `O_DIRECT` where a file of `len` bytes is worth it and the system lets us.
    fn open(options: &OpenOptions, path: &Path, len: u64) -> io::Result<Place> {
        let place = |file, is_direct| Place {
            path: path.to_owned(),
            options: options.clone(),
            file,
            is_direct,
            at: 0,
        };
        if let Some(flag) = DIRECT.filter(|_| len >= DIRECT_FROM) {
            let direct = options.clone().custom_flags(flag).open(path);
            match direct {
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
                other => return Ok(place(other?, true)),
            }
        }
        Ok(place(options.open(path)?, false))
    }

    /// Does a transfer; the first of a file once more through the page cache, where the file system took the flag and then refuses it: some
    /// have blocks of more than [`ALIGN`].
    fn transfer(&mut self, mut go: impl FnMut(&File, u64) -> io::Result<()>) -> io::Result<()> {
        let done = refusal(self.is_direct).and_then(|()| go(&self.file, self.at));
        match done {
            Err(e) if self.is_direct && self.at == 0 && e.kind() == io::ErrorKind::InvalidInput => {
                self.file = self.options.open(&self.path)?;
                self.is_direct = false;
                go(&self.file, self.at)
            }
            other => other,
        }
    }

    /// How many of these bytes can be transferred where they are.
    fn in_place(&self, bytes: &[u8]) -> usize {
        match (self.is_direct, bytes.as_ptr().addr().is_multiple_of(ALIGN)) {
            (false, _) => bytes.len(),
            (true, true) => bytes.len() / ALIGN * ALIGN,
            (true, false) => 0,
        }
    }

    fn piece(&self) -> usize {
        match self.is_direct {
            true => PIECES.0,
            false => PIECES.1,
        }
    }
}

/// A file that is written from its start on.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    place: Place,
    bounce: &'b mut Bounce,
    /// Behind the last byte.
    end: u64,
}

impl Writer<'_> {
    /// Creates the file, or takes one that nobody needs any more; `len` is about what will be written, to choose the way.
    pub(crate) fn create<'b>(
        path: &Path,
        len: u64,
        bounce: &'b mut Bounce,
    ) -> io::Result<Writer<'b>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        Ok(Writer {
            place: Place::open(&options, path, len)?,
            bounce,
            end: 0,
        })
    }

    /// The longest run that should be written at a time: a multiple of 4096, so that such runs follow one another without gaps.
    pub(crate) fn piece(&self) -> usize {
        self.place.piece()
    }

    /// Writes a run at the next multiple of 4096.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.end = self.place.at + bytes.len() as u64;
        let (whole, rest) = bytes.split_at(self.place.in_place(bytes));
        if !whole.is_empty() {
            self.place
                .transfer(|file, at| file.write_all_at(whole, at))?;
            self.place.at += whole.len() as u64;
        }
        for rest in rest.chunks(Bounce::LEN) {
            let padded = self.bounce.take(rest.len().next_multiple_of(ALIGN));
            let (bytes, padding) = padded.split_at_mut(rest.len());
            bytes.copy_from_slice(rest);
            padding.fill(0);
            self.place
                .transfer(|file, at| file.write_all_at(padded, at))?;
            self.place.at += padded.len() as u64;
        }
        self.place.at = self.place.at.next_multiple_of(ALIGN as u64);
        Ok(())
    }

    /// Cuts off what made the last run whole, and what an earlier file had behind it.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.place.file.set_len(self.end)
    }
}

/// A file that is read from its start on, in the runs that were written.
#[derive(Debug)]
pub(crate) struct Reader<'b> {
    place: Place,
    bounce: &'b mut Bounce,
}

impl Reader<'_> {
    pub(crate) fn open<'b>(path: &Path, bounce: &'b mut Bounce) -> io::Result<Reader<'b>> {
        let len = std::fs::metadata(path)?.len();
        let place = Place::open(OpenOptions::new().read(true), path, len)?;
        Ok(Reader { place, bounce })
    }

    /// As [`Writer::piece`].
    pub(crate) fn piece(&self) -> usize {
        self.place.piece()
    }

    /// Reads the next run.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let (whole, rest) = bytes.split_at_mut(self.place.in_place(bytes));
        if !whole.is_empty() {
            self.place
                .transfer(|file, at| file.read_exact_at(whole, at))?;
            self.place.at += whole.len() as u64;
        }
        for rest in rest.chunks_mut(Bounce::LEN) {
            let padded = self.bounce.take(rest.len().next_multiple_of(ALIGN));
            let wanted = rest.len();
            self.place
                .transfer(|file, at| read_some_at(file, padded, wanted, at))?;
            rest.copy_from_slice(&padded[..wanted]);
            self.place.at += padded.len() as u64;
        }
        self.place.at = self.place.at.next_multiple_of(ALIGN as u64);
        Ok(())
    }
}

/// Reads so many bytes or more: a file may end before the multiple of 4096 that a direct read is asked for.
fn read_some_at(file: &File, bytes: &mut [u8], wanted: usize, at: u64) -> io::Result<()> {
    let mut n_read = 0;
    while n_read < wanted {
        match file.read_at(&mut bytes[n_read..], at + n_read as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => n_read += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_device::{Device, bytes_of, bytes_of_mut};
    use shardgraph_graph::random::Stream;

    thread_local! {
        /// Whether direct transfers fail, as on a file system that has larger blocks.
        pub(super) static REFUSES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Runs of words: short files, and one beyond [`DIRECT_FROM`] with a large run, an odd one and an empty one.
    const RUNS: [&[usize]; 8] = [
        &[0],
        &[1],
        &[1023, 1, 1024, 1025, 2],
        &[300_000, 2],
        &[1 << 22],
        &[(1 << 22) - 3, 0, 77, 2],
        &[5, (1 << 22) + 1, 2],
        &[2_000_000, 2_000_001, 262_144, 262_145, 2],
    ];

    /// Beside the program that tests, which lies on a disk, and in the folder for scratch files, which may be memory.
    fn folders() -> [tempfile::TempDir; 2] {
        let program = std::env::current_exe().unwrap();
        [
            tempfile::tempdir_in(program.parent().unwrap()).unwrap(),
            tempfile::tempdir().unwrap(),
        ]
    }

    /// Writes and reads runs: from pages of their own, as rows lie, or from any place.
    fn check(path: &Path, runs: &[usize], in_place: bool, bounce: &mut Bounce) {
        let device = Device::host();
        let table = |len: usize| device.zeros_on_huge_pages::<u32>(len + 1).unwrap();
        let skip = usize::from(!in_place);
        let len = runs.iter().sum::<usize>() as u64 * 4;
        let mut written = Vec::new();
        let mut out = Writer::create(path, len, bounce).unwrap();
        for (number, &len) in (0u64..).zip(runs) {
            let mut run = table(len);
            let mut stream = Stream::new(len as u64, "test", number);
            let words = run.as_host_mut().unwrap();
            words
                .iter_mut()
                .for_each(|word| *word = stream.next_u64() as u32);
            for piece in bytes_of(&words[skip..][..len]).chunks(out.piece()) {
                out.write(piece).unwrap();
            }
            written.push(run);
        }
        let is_direct = out.place.is_direct;
        assert!(len >= DIRECT_FROM || !is_direct);
        out.finish().unwrap();
        let mut input = Reader::open(path, bounce).unwrap();
        for (run, &len) in written.iter().zip(runs) {
            let mut read = table(len);
            let words = &mut read.as_host_mut().unwrap()[skip..][..len];
            let piece = input.piece();
            for piece in bytes_of_mut(words).chunks_mut(piece) {
                input.read(piece).unwrap();
            }
            assert!(words == &run.as_host().unwrap()[skip..][..len], "{runs:?}");
        }
        let behind = input.read(&mut [0]).unwrap_err();
        assert_eq!(behind.kind(), io::ErrorKind::UnexpectedEof);
    }

    fn check_all() {
        let mut bounce = Bounce::default();
        for folder in folders() {
            // Of one name: a file that nobody needs any more, longer or shorter, is written over.
            for runs in RUNS {
                for in_place in [true, false] {
                    check(&folder.path().join("rows"), runs, in_place, &mut bounce);
                }
            }
        }
    }

    #[test]
    fn what_is_written_is_read_whatever_its_length() {
        check_all();
    }

    #[test]
    fn where_direct_transfers_are_refused_the_page_cache_takes_them() {
        REFUSES.set(true);
        check_all();
        REFUSES.set(false);
    }

    #[test]
    fn a_file_that_is_written_over_ends_where_the_new_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let mut bounce = Bounce::default();
        for len in [DIRECT_FROM as usize + 5, 3] {
            let mut out = Writer::create(&path, len as u64, &mut bounce).unwrap();
            out.write(&vec![7; len]).unwrap();
            out.finish().unwrap();
            assert!(std::fs::read(&path).unwrap() == vec![7; len]);
        }
    }
}
