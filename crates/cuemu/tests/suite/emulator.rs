//! A library of the test kernels, opened, with its launches and memory.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use libloading::Library;
use shardgraph_cuemu::compile::{self, Build, Job};

type LaunchFn = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    *const u32,
    u32,
    *mut *mut c_void,
    u32,
    u64,
    *mut c_char,
    usize,
) -> c_int;

/// Folder of the test kernels.
pub(crate) fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// The line of a test kernel's source that holds `text`, as an error names it.
pub(crate) fn line(file: &str, text: &str) -> String {
    let source = fs::read_to_string(kernels().join(file)).unwrap();
    let lines: Vec<usize> = (1..)
        .zip(source.lines())
        .filter_map(|(number, line)| line.contains(text).then_some(number))
        .collect();
    assert_eq!(lines.len(), 1, "{text} is on {} lines", lines.len());
    format!("{file}:{}", lines[0])
}

/// What compiles the test kernels for a build.
pub(crate) fn job(build: Build, name: &str) -> Job {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    Job {
        build,
        emulator: here.join("src"),
        kernels: kernels(),
        includes: vec![here.join("../../cuda")],
        only: None,
        flags: Vec::new(),
        library: folder.join("libtest_kernels.so"),
        objects: folder,
    }
}

/// The library of the test kernels, compiled once; `None` without a compiler.
pub(crate) fn library(build: Build) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let compiler = compile::compiler()?;
    let _guard = ONE_AT_A_TIME.lock();
    let job = job(build, &format!("{build:?}").to_lowercase());
    match compile::compile(&job, &compiler) {
        Ok(warnings) => assert_eq!(warnings, Vec::<String>::new()),
        Err(error) => panic!("{error}"),
    }
    Some(job.library)
}

/// A kernel's argument.
#[derive(Clone, Copy)]
pub(crate) struct Value([u8; 8]);

macro_rules! values {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                let mut bytes = [0; 8];
                let own = number.to_ne_bytes();
                bytes[..own.len()].copy_from_slice(&own);
                Self(bytes)
            }
        }
    )*};
}
values!(f32, u32, i32, u64, u16, u8, usize);

impl<T: Copy> From<&Memory<'_, T>> for Value {
    fn from(memory: &Memory<'_, T>) -> Self {
        Self::from(memory.at as usize)
    }
}

/// The arguments of a launch.
#[macro_export]
macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &[$($crate::emulator::Value::from($value)),*] };
}

/// An opened library.
pub(crate) struct Emulator {
    library: Library,
}

impl Emulator {
    /// The library of a build; in a child process the one that the parent named. `None`, and a line
    /// that says so, without a compiler.
    pub(crate) fn open(build: Build) -> Option<&'static Self> {
        static OPENED: [OnceLock<Option<Emulator>>; 3] = [const { OnceLock::new() }; 3];
        let open = || {
            let given = std::env::var_os("SHARDGRAPH_EMULATED_LIBRARY").map(PathBuf::from);
            given.or_else(|| library(build)).map(|path| Self::at(&path))
        };
        let opened = OPENED[build as usize].get_or_init(open).as_ref();
        if opened.is_none() {
            println!("SKIPPED: {}", shardgraph_cuemu::SKIP_REASON);
        }
        opened
    }

    /// The library at a path.
    pub(crate) fn at(path: &Path) -> Self {
        // SAFETY: the library was compiled from this crate's sources; loading it runs only the
        // compiler's own initialisers.
        let library = unsafe { Library::new(path) }.unwrap();
        Self { library }
    }

    fn symbol<F>(&self, name: &str) -> libloading::Symbol<'_, F> {
        // SAFETY: each caller gives the type that cuemu.cpp declares for this name.
        unsafe { self.library.get(name.as_bytes()) }.unwrap()
    }

    /// "plain", "address" or "race".
    pub(crate) fn build(&self) -> &str {
        let build = self.symbol::<unsafe extern "C" fn() -> *const c_char>("cuemu_build");
        // SAFETY: it takes nothing and returns a constant string.
        unsafe { CStr::from_ptr(build()) }.to_str().unwrap()
    }

    /// Name and signature of every kernel.
    pub(crate) fn table(&self) -> Vec<(String, String)> {
        let n = self.symbol::<unsafe extern "C" fn() -> u32>("cuemu_n_kernels");
        let text = |which: &str, i: u32| {
            let get = self.symbol::<unsafe extern "C" fn(u32) -> *const c_char>(which);
            // SAFETY: below the count, each of the two returns a constant string.
            unsafe { CStr::from_ptr(get(i)) }
                .to_str()
                .unwrap()
                .to_owned()
        };
        // SAFETY: it takes and changes nothing.
        (0..unsafe { n() })
            .map(|i| {
                (
                    text("cuemu_kernel_name", i),
                    text("cuemu_kernel_signature", i),
                )
            })
            .collect()
    }

    /// One launch with an error buffer of 4096 bytes.
    pub(crate) fn launch(
        &self,
        kernel: &str,
        shape: Shape,
        values: &[Value],
    ) -> Result<(), String> {
        self.launch_with(kernel, shape, values, 4096)
    }

    /// One launch with an error buffer of the given size.
    pub(crate) fn launch_with(
        &self,
        kernel: &str,
        shape: Shape,
        values: &[Value],
        error_bytes: usize,
    ) -> Result<(), String> {
        let mut values = values.to_vec();
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| (&raw mut value.0).cast())
            .collect();
        let mut error = vec![0xff_u8; error_bytes + 1];
        let name = CString::new(kernel).unwrap();
        let launch = self.symbol::<LaunchFn>("cuemu_launch");
        // SAFETY: name ends in a zero; grid and block are three numbers; each argument is 8 readable
        // bytes; error has error_bytes writable ones. The kernels stay in their buffers, or the test
        // wants the build that stops them before they leave.
        let status = unsafe {
            launch(
                name.as_ptr(),
                shape.grid.as_ptr(),
                shape.block.as_ptr(),
                shape.shared_bytes,
                pointers.as_mut_ptr(),
                pointers.len().try_into().unwrap(),
                shape.seed,
                error.as_mut_ptr().cast(),
                error_bytes,
            )
        };
        assert_eq!(error.last(), Some(&0xff), "wrote past the error buffer");
        if status == 0 {
            return Ok(());
        }
        let text = CStr::from_bytes_until_nul(&error).unwrap();
        Err(text.to_str().unwrap().to_owned())
    }

    /// Memory of the library that holds `values`.
    pub(crate) fn memory<T: Copy>(&self, values: &[T]) -> Memory<'_, T> {
        let alloc = self.symbol::<unsafe extern "C" fn(usize) -> *mut c_void>("cuemu_alloc");
        // SAFETY: any size is allowed.
        let at: *mut T = unsafe { alloc(size_of_val(values)) }.cast();
        assert!(!at.is_null());
        // SAFETY: `at` has room for the values, is aligned to 256 bytes, and is new.
        unsafe { at.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Memory {
            emulator: self,
            at,
            len: values.len(),
            values: PhantomData,
        }
    }

    /// Memory as the library gives it.
    pub(crate) fn unwritten<T: Copy>(&self, len: usize) -> Memory<'_, T> {
        let alloc = self.symbol::<unsafe extern "C" fn(usize) -> *mut c_void>("cuemu_alloc");
        // SAFETY: any size is allowed.
        let at = unsafe { alloc(len * size_of::<T>()) }.cast();
        Memory {
            emulator: self,
            at,
            len,
            values: PhantomData,
        }
    }
}

/// A run of values in memory that the library owns.
pub(crate) struct Memory<'e, T: Copy> {
    emulator: &'e Emulator,
    at: *mut T,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Copy> Memory<'_, T> {
    /// What it holds now.
    pub(crate) fn to_vec(&self) -> Vec<T> {
        // SAFETY: the library allocated len values and filled them, every bit pattern of these
        // numbers is one, and no launch runs while this thread is here.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }.to_vec()
    }
}

impl<T: Copy> Drop for Memory<'_, T> {
    fn drop(&mut self) {
        let free = self
            .emulator
            .symbol::<unsafe extern "C" fn(*mut c_void)>("cuemu_free");
        // SAFETY: `at` came from cuemu_alloc of this library and is freed once.
        unsafe { free(self.at.cast()) };
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) seed: u64,
}

impl Shape {
    /// Blocks and threads in a line.
    pub(crate) fn line(n_blocks: u32, n_threads: u32) -> Self {
        Self {
            grid: [n_blocks, 1, 1],
            block: [n_threads, 1, 1],
            shared_bytes: 0,
            seed: 0,
        }
    }

    pub(crate) fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    pub(crate) fn shared_bytes(self, shared_bytes: u32) -> Self {
        Self {
            shared_bytes,
            ..self
        }
    }
}

/// Numbers without structure (the multiplier is Steele and Vigna's for 32 bits).
pub(crate) fn scattered(n: u32) -> Vec<u32> {
    (1..=n)
        .map(|i| i.wrapping_mul(0x915f_77f5).rotate_left(11) ^ i)
        .collect()
}
