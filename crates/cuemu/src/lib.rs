//! The project's CUDA kernels, run on the CPU for tests.
//!
//! The build script compiles `cuda/*.cu` with the machine's C++ compiler and a small emulator of
//! CUDA into one shared library, which a test opens like any other device. Nothing that is shipped
//! depends on this crate. What the emulator shows and what it cannot show is in the README.
//!
//! ```
//! match shardgraph_cuemu::library() {
//!     Some(path) => assert!(path.is_file()),
//!     None => println!("SKIPPED: {}", shardgraph_cuemu::SKIP_REASON),
//! }
//! ```
#![forbid(unsafe_code)]

use std::path::PathBuf;

pub mod compile;

/// Why [`library`] is `None`: what a skipped test prints.
pub const SKIP_REASON: &str = "no emulated kernels: no C++ compiler (g++) was found on this machine when the tests were built";

/// The library to open: `$SHARDGRAPH_EMULATED_LIBRARY` if it is set (a checking build, made by
/// `cuemu-build`), else the one that was built with this crate.
pub fn library() -> Option<PathBuf> {
    std::env::var_os("SHARDGRAPH_EMULATED_LIBRARY")
        .map(PathBuf::from)
        .or_else(|| option_env!("SHARDGRAPH_EMULATED_BUILT").map(PathBuf::from))
}

/// A library of collectives with NCCL's interface, for ranks that are threads of one process with an emulated device each;
/// `None` without a compiler when the tests were built, or on another machine. What its name plants is in `nccl.cpp`.
pub fn collectives() -> Option<PathBuf> {
    option_env!("SHARDGRAPH_EMULATED_NCCL_BUILT")
        .map(PathBuf::from)
        .filter(|library| library.is_file())
}

/// A CUDA driver for tests, `libcuda.so` in a folder of its own: the driver's C interface over the emulator's library, so
/// that the code which talks to the driver runs without a GPU. A process that is to open it starts with this folder in
/// `LD_LIBRARY_PATH`. `None` as for [`collectives`]. What a test can plant is in `driver.cpp`.
pub fn driver() -> Option<PathBuf> {
    option_env!("SHARDGRAPH_TEST_DRIVER_BUILT")
        .map(PathBuf::from)
        .filter(|library| library.is_file())
}
