//! Direct I/O: files of runs of bytes, each at a multiple of 4096; large files go past the page cache.
//!
//! Rows that go to disk are read again only when the rest of a table has passed through memory, so keeping them in the page cache
//! costs a copy and pushes out what is wanted. A file system that refuses (tmpfs), another operating system, and files shorter than
//! `DIRECT_FROM` go through the page cache. So do files whose first direct transfer is refused.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that is worth going past the page cache.
const DIRECT_FROM: u64 = 16 << 20;
/// Bytes that are looked at and transferred together: past the page cache, and through it, where they stay in the processor's cache.
const PIECES: (usize, usize) = (16 << 20, 256 << 10);
/// Alignment of addresses, offsets and lengths.
const ALIGN: usize = 4096;

/// Flag of `open` for transfers past the page cache.
#[cfg(target_os = "linux")]
const DIRECT: Option<i32> = Some(libc::O_DIRECT);
#[cfg(not(target_os = "linux"))]
const DIRECT: Option<i32> = None;

/// Failure of a direct transfer, in tests of a file system that refuses it.
fn refusal(_is_direct: bool) -> io::Result<()> {
    #[cfg(test)]
    if _is_direct && tests::REFUSES.get() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}

/// Aligned memory for bytes that cannot be transferred in place; one serves all files that are written and read in turn.
#[derive(Debug, Default)]
pub struct BounceBuffer {
    bytes: Vec<u8>,
}

impl BounceBuffer {
    /// Bytes in one transfer, a multiple of 4096.
    pub const LEN: usize = 1 << 20;

    /// Aligned memory of `len` bytes, at most [`BounceBuffer::LEN`], with any content.
    fn take(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; BounceBuffer::LEN + ALIGN];
        }
        let start = self.bytes.as_ptr().align_offset(ALIGN);
        &mut self.bytes[start..][..len]
    }
}

/// An open file, and where its next run begins.
#[derive(Debug)]
struct DirectFile {
    path: PathBuf,
    options: OpenOptions,
    file: File,
    is_direct: bool,
    /// A multiple of [`ALIGN`].
    at: u64,
}

impl DirectFile {
    /// Opens with `O_DIRECT` where a file of `len` bytes is worth it and the system lets us.
    fn open(options: &OpenOptions, path: &Path, len: u64) -> io::Result<DirectFile> {
        let open_file = |file, is_direct| DirectFile {
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
                other => return Ok(open_file(other?, true)),
            }
        }
        Ok(open_file(options.open(path)?, false))
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

    /// Number of leading bytes that can be transferred in place.
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

/// Writer of a file from its start, run by run.
///
/// ```
/// use shardgraph_storage::direct::{BounceBuffer, Reader, Writer};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("rows");
/// let mut bounce = BounceBuffer::default();
/// let mut out = Writer::create(&path, 6, &mut bounce)?;
/// out.write(b"abc")?;
/// out.write(b"def")?;
/// out.finish()?;
/// let mut input = Reader::open(&path, &mut bounce)?;
/// let mut run = [0; 3];
/// for expected in [b"abc", b"def"] {
///     input.read(&mut run)?;
///     assert_eq!(&run, expected);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'b> {
    file: DirectFile,
    bounce: &'b mut BounceBuffer,
    /// Behind the last byte.
    end: u64,
}

impl Writer<'_> {
    /// Creates the file, or writes over the one that is there; `len`, the bytes to come, decides whether it is worth direct I/O.
    ///
    /// # Errors
    /// The system's.
    pub fn create<'b>(
        path: &Path,
        len: u64,
        bounce: &'b mut BounceBuffer,
    ) -> io::Result<Writer<'b>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        Ok(Writer {
            file: DirectFile::open(&options, path, len)?,
            bounce,
            end: 0,
        })
    }

    /// Best length of one transfer, a multiple of 4096: such runs follow one another without gaps.
    #[must_use]
    pub fn piece(&self) -> usize {
        self.file.piece()
    }

    /// Writes a run at the next multiple of 4096.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.end = self.file.at + bytes.len() as u64;
        let (whole, rest) = bytes.split_at(self.file.in_place(bytes));
        if !whole.is_empty() {
            self.file
                .transfer(|file, at| file.write_all_at(whole, at))?;
            self.file.at += whole.len() as u64;
        }
        for rest in rest.chunks(BounceBuffer::LEN) {
            let padded = self.bounce.take(rest.len().next_multiple_of(ALIGN));
            let (bytes, padding) = padded.split_at_mut(rest.len());
            bytes.copy_from_slice(rest);
            padding.fill(0);
            self.file
                .transfer(|file, at| file.write_all_at(padded, at))?;
            self.file.at += padded.len() as u64;
        }
        self.file.at = self.file.at.next_multiple_of(ALIGN as u64);
        Ok(())
    }

    /// Cuts off the padding of the last run, and the rest of an earlier file.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(self) -> io::Result<()> {
        self.file.file.set_len(self.end)
    }
}

/// Reader of a file from its start, in the runs that were written.
#[derive(Debug)]
pub struct Reader<'b> {
    file: DirectFile,
    bounce: &'b mut BounceBuffer,
}

impl Reader<'_> {
    /// Opens the file.
    ///
    /// # Errors
    /// The system's.
    pub fn open<'b>(path: &Path, bounce: &'b mut BounceBuffer) -> io::Result<Reader<'b>> {
        let len = std::fs::metadata(path)?.len();
        let file = DirectFile::open(OpenOptions::new().read(true), path, len)?;
        Ok(Reader { file, bounce })
    }

    /// As [`Writer::piece`].
    #[must_use]
    pub fn piece(&self) -> usize {
        self.file.piece()
    }

    /// Reads the next run, which has to have the length that was written.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` behind the last run.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let (whole, rest) = bytes.split_at_mut(self.file.in_place(bytes));
        if !whole.is_empty() {
            self.file
                .transfer(|file, at| file.read_exact_at(whole, at))?;
            self.file.at += whole.len() as u64;
        }
        for rest in rest.chunks_mut(BounceBuffer::LEN) {
            let padded = self.bounce.take(rest.len().next_multiple_of(ALIGN));
            let wanted = rest.len();
            self.file
                .transfer(|file, at| read_some_at(file, padded, wanted, at))?;
            rest.copy_from_slice(&padded[..wanted]);
            self.file.at += padded.len() as u64;
        }
        self.file.at = self.file.at.next_multiple_of(ALIGN as u64);
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
    use shardgraph_random::KeyedRng;

    thread_local! {
        /// True if direct transfers fail, as on a file system that has larger blocks.
        pub(super) static REFUSES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Runs of words: short files, and one beyond `DIRECT_FROM` with a large run, an odd one and an empty one.
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

    /// Bytes that begin at a multiple of [`ALIGN`], or 4 bytes behind one.
    struct Aligned {
        bytes: Vec<u8>,
        start: usize,
        len: usize,
    }

    impl Aligned {
        fn new(len: usize, in_place: bool) -> Aligned {
            let bytes = vec![0; len + 2 * ALIGN];
            let start = bytes.as_ptr().align_offset(ALIGN) + if in_place { 0 } else { 4 };
            Aligned { bytes, start, len }
        }

        fn get(&self) -> &[u8] {
            &self.bytes[self.start..][..self.len]
        }

        fn get_mut(&mut self) -> &mut [u8] {
            &mut self.bytes[self.start..][..self.len]
        }
    }

    /// Writes and reads runs, aligned or not.
    fn check(path: &Path, runs: &[usize], in_place: bool, bounce: &mut BounceBuffer) {
        let len = runs.iter().sum::<usize>() as u64 * 4;
        let mut written = Vec::new();
        let mut out = Writer::create(path, len, bounce).unwrap();
        for (number, &len) in (0u64..).zip(runs) {
            let mut run = Aligned::new(4 * len, in_place);
            let mut rng = KeyedRng::new(len as u64, "test", number);
            let words = run.get_mut().chunks_exact_mut(4);
            words.for_each(|word| word.copy_from_slice(&(rng.next_u64() as u32).to_le_bytes()));
            for piece in run.get().chunks(out.piece()) {
                out.write(piece).unwrap();
            }
            written.push(run);
        }
        let is_direct = out.file.is_direct;
        assert!(len >= DIRECT_FROM || !is_direct);
        out.finish().unwrap();
        let mut input = Reader::open(path, bounce).unwrap();
        for (run, &len) in written.iter().zip(runs) {
            let mut read = Aligned::new(4 * len, in_place);
            let piece = input.piece();
            for piece in read.get_mut().chunks_mut(piece) {
                input.read(piece).unwrap();
            }
            assert!(read.get() == run.get(), "{runs:?}");
        }
        let behind = input.read(&mut [0]).unwrap_err();
        assert_eq!(behind.kind(), io::ErrorKind::UnexpectedEof);
    }

    fn check_all() {
        let mut bounce = BounceBuffer::default();
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
        let mut bounce = BounceBuffer::default();
        for len in [DIRECT_FROM as usize + 5, 3] {
            let mut out = Writer::create(&path, len as u64, &mut bounce).unwrap();
            out.write(&vec![7; len]).unwrap();
            out.finish().unwrap();
            assert!(std::fs::read(&path).unwrap() == vec![7; len]);
        }
    }
}
