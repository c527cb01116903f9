//! Opens an MPI library and finds the functions of the standard interface in it.

use crate::error::CommErrorKind;

use super::abi::{Count, Displacement, Handle, STANDARD_NAME, SUCCESS};
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// One pointer for each function.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn find(library: &Library, prefix: &str) -> Result<Functions, String> {
                // SAFETY: the types are those that the standard interface gives these names; `open`
                // has checked that the library has it.
                unsafe { Ok(Functions { $($field: symbol(library, prefix, $name)?,)* }) }
            }
        }
    };
}
functions! {
    init_thread = "MPI_Init_thread"(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized = "MPI_Initialized"(*mut c_int);
    finalize = "MPI_Finalize"();
    error_string = "MPI_Error_string"(c_int, *mut c_char, *mut c_int);
    comm_rank = "MPI_Comm_rank"(Handle, *mut c_int);
    comm_size = "MPI_Comm_size"(Handle, *mut c_int);
    comm_dup = "MPI_Comm_dup"(Handle, *mut Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler"(Handle, Handle);
    all_gather = "MPI_Iallgather_c"(*const c_void, Count, Handle, *mut c_void, Count, Handle, Handle, *mut Handle);
    all_gather_v = "MPI_Iallgatherv_c"(*const c_void, Count, Handle, *mut c_void, *const Count, *const Displacement, Handle, Handle, *mut Handle);
    all_to_all_v = "MPI_Ialltoallv_c"(*const c_void, *const Count, *const Displacement, Handle, *mut c_void, *const Count, *const Displacement, Handle, Handle, *mut Handle);
    all_reduce = "MPI_Iallreduce_c"(*const c_void, *mut c_void, Count, Handle, Handle, Handle, *mut Handle);
    broadcast = "MPI_Ibcast_c"(*mut c_void, Count, Handle, c_int, Handle, *mut Handle);
    send = "MPI_Isend_c"(*const c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    receive = "MPI_Irecv_c"(*mut c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    test = "MPI_Test"(*mut Handle, *mut c_int, *mut c_void);
    cancel = "MPI_Cancel"(*mut Handle);
}

/// # Safety
/// `F` is the type of the function with this name.
unsafe fn symbol<F: Copy>(library: &Library, prefix: &str, name: &str) -> Result<F, String> {
    let symbol = format!("{prefix}{name}");
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(symbol.as_bytes()) };
    found
        .map(|function| *function)
        .map_err(|_| format!("it has no {symbol}"))
}

/// Opens the library and finds its functions; the error says how to get one.
pub(super) fn open(path: &Path) -> Result<(Library, Functions), CommErrorKind> {
    let said = |why: String| CommErrorKind::Backend {
        code: 0,
        text: format!("{}: {why}", path.display()),
    };
    let library = load(path).map_err(|error| {
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        let what = format!(
            "cannot open an MPI library: {}. An MPI with the standard interface has {STANDARD_NAME} (`pip install mpich==5.0.2` \
             puts one into lib/ of the Python environment); for any other MPI `cargo xtask mpi-shim` builds one. \
             Give its path, or use another back end",
            reason.unwrap_or_else(|| error.to_string())
        );
        CommErrorKind::MissingLibrary { what }
    })?;
    let prefix = interface(&library).map_err(said)?;
    let functions = Functions::find(&library, prefix).map_err(said)?;
    Ok((library, functions))
}

/// Opens the library so that the parts which an MPI loads later find its symbols.
fn load(path: &Path) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library as Unix, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: the initialisers of an MPI library, which the user named or the system's loader
        // found, ask for nothing.
        unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map(Library::from)
    }
    #[cfg(not(unix))]
    // SAFETY: as above.
    unsafe {
        Library::new(path)
    }
}

/// The prefix of the functions of the standard interface: none, or that of the shim, whose own MPI
/// has taken the plain names.
fn interface(library: &Library) -> Result<&'static str, String> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let not_standard = |what: &str| {
        format!(
            "{what}, so it has not the standard interface of MPI 5.0: take {STANDARD_NAME} of the same MPI, \
             or build a library with `cargo xtask mpi-shim`"
        )
    };
    for prefix in ["shardgraph_", ""] {
        // SAFETY: the type is the one that MPI 5.0 and the shim give this name.
        let Ok(version) = (unsafe { symbol::<Version>(library, prefix, "MPI_Abi_get_version") })
        else {
            continue;
        };
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: MPI allows this call before it is started; the arguments are live integers.
        let status = unsafe { version(&mut major, &mut minor) };
        if status != SUCCESS || major != 1 {
            return Err(not_standard(&format!(
                "it says that its interface is {major}.{minor}, not 1"
            )));
        }
        return Ok(prefix);
    }
    Err(not_standard("it has no MPI_Abi_get_version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_no_mpi_is_refused() {
        let absent = open(Path::new("/nowhere/libmpi_abi.so.1")).err().unwrap();
        assert!(
            matches!(absent, CommErrorKind::MissingLibrary { .. })
                && absent.to_string().contains("pip install mpich")
        );
        #[cfg(target_os = "linux")]
        {
            let other = open(Path::new("libc.so.6")).err().unwrap();
            assert!(other.to_string().contains("mpi-shim"), "{other}");
        }
    }
}
