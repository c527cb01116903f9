//! Files: written whole or not at all, held folders, checksums, compressed readers, NumPy arrays, spill files, direct I/O.
//!
//! ```text
//! write_atomic, StagedFile ── temporary file ─ fsync ─ rename ─ fsync of the folder; devices and pipes directly
//! FolderLock               ── one process at a time in a folder
//! Hasher, hash             ── XXH3, 64 bits
//! Source ── Unpacked       ── plain, .gz or .zst bytes, guarded against bombs
//! read_bounded             ── small files, whole
//! Encoder ── Decoder       ── numbers and strings as little-endian bytes
//! npy::Matrix              ── NumPy's array files
//! SpillFile, ScratchFile   ── bytes beyond a limit go to a file that removes itself    (Unix)
//! direct::{Reader, Writer} ── large files past the page cache                           (Unix)
//! ```
//!
//! ```
//! use shardgraph_storage::{Unpacked, hash, write_atomic};
//! use std::io::Read;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("edges.txt");
//! write_atomic(&path, |out| out.write_all(b"0 1\n"))?;
//! let mut text = Vec::new();
//! Unpacked::open(&path)?.read_to_end(&mut text)?;
//! assert_eq!(hash(&text), hash(b"0 1\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod atomic;
mod codec;
mod compression;
#[cfg(unix)]
pub mod direct;
mod error;
mod folder_lock;
mod hash;
pub mod npy;
mod source;
#[cfg(unix)]
mod spill;
mod target;
mod text;
mod unpacked;

pub use atomic::{StagedFile, check_writable, remove_leftovers, write_atomic};
pub use codec::{Decoder, Encoder, Number};
pub use compression::Compression;
pub use error::Error;
pub use folder_lock::FolderLock;
pub use hash::{Hasher, hash, hash_numbers};
pub use source::Source;
#[cfg(unix)]
pub use spill::{FileRange, ScratchFile, SpillFile};
pub use target::regular_target;
pub use text::{MAX_SETTINGS_BYTES, read_bounded, utf8_text};
pub use unpacked::{Unpacked, unpacking_error};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
