//! The numbers of the standard binary interface of MPI 5.0, and how it names the element types.
//!
//! # Source
//! MPI 5.0, chapter 20 (application binary interface); a test compares them with the header
//! `mpi_abi.h` where that is there.

use std::ffi::c_int;

/// Where the loader of the system finds an MPI with the standard interface, if it finds one.
#[cfg(not(target_os = "macos"))]
pub(in crate::mpi) const STANDARD_NAME: &str = "libmpi_abi.so.1";
#[cfg(target_os = "macos")]
pub(in crate::mpi) const STANDARD_NAME: &str = "libmpi_abi.1.dylib";

/// Handles have the width of a pointer; nothing is ever read through them.
pub(super) type Handle = usize;
/// `MPI_Count`.
pub(super) type Count = i64;
/// `MPI_Aint`.
pub(super) type Displacement = isize;

pub(super) const SUCCESS: c_int = 0;
pub(super) const COMM_NULL: Handle = 0x100;
pub(super) const COMM_WORLD: Handle = 0x101;
pub(super) const ERRORS_RETURN: Handle = 0x143;
pub(super) const REQUEST_NULL: Handle = 0x180;
pub(super) const SUM: Handle = 0x21;
pub(super) const MIN: Handle = 0x22;
pub(super) const MAX: Handle = 0x23;
pub(super) const FLOAT: Handle = 0x210;
pub(super) const INT8_T: Handle = 0x240;
pub(super) const UINT8_T: Handle = 0x241;
pub(super) const INT32_T: Handle = 0x250;
pub(super) const UINT32_T: Handle = 0x251;
pub(super) const INT64_T: Handle = 0x258;
pub(super) const UINT64_T: Handle = 0x259;
pub(super) const IN_PLACE: usize = 1;
pub(super) const ANY_SOURCE: c_int = -1;
pub(super) const THREAD_SERIALIZED: c_int = 2048;
pub(super) const MAX_ERROR_STRING: usize = 512;

/// The tag of every message between two ranks.
pub(super) const TAG: c_int = 0;

/// A type that MPI moves and combines.
pub(crate) trait Wire: Copy + Default {
    /// How MPI names it.
    const TYPE: usize;
    /// As what it is added: integers wrap around, which MPI promises for unsigned ones only.
    const SUM_TYPE: usize;
    /// As what it is compared, after `turn`: always signed. MPICH 4.0 compares unsigned integers as
    /// if they were signed (its issue 6083), and so do builds of later ones and of Open MPI 4.1 for
    /// some types.
    const ORDER_TYPE: usize;
    /// Whether MPI's reductions give what [`Reduction`] documents. MPI fixes neither the order of
    /// floating-point sums nor what NaN and -0.0 do in a maximum.
    const NATIVE: bool;

    /// Flips the highest bit of unsigned integers, so that signed ones of the same bits have their
    /// order. Twice is not at all.
    fn turn(elements: &mut [Self]);
}

macro_rules! wire {
    ($($element:ty: $wire:expr, $sum:expr, $order:expr, $native:expr, $turned:expr;)*) => {$(
        impl Wire for $element {
            const TYPE: Handle = $wire;
            const SUM_TYPE: Handle = $sum;
            const ORDER_TYPE: Handle = $order;
            const NATIVE: bool = $native;

            fn turn(elements: &mut [$element]) {
                for element in elements {
                    *element = $turned(*element);
                }
            }
        }
    )*};
}
wire! {
    f32: FLOAT, FLOAT, FLOAT, false, |x| x;
    u32: UINT32_T, UINT32_T, INT32_T, true, |x| x ^ (1 << 31);
    u64: UINT64_T, UINT64_T, INT64_T, true, |x| x ^ (1 << 63);
    i64: INT64_T, UINT64_T, INT64_T, true, |x| x;
    u8: UINT8_T, UINT8_T, INT8_T, true, |x| x ^ (1 << 7);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// What `#define NAME ((TYPE)0x...)` and `NAME = n,` say.
    fn numbers(header: &str) -> BTreeMap<&str, i64> {
        let number = |text: &str| -> Option<i64> {
            let text = text.trim_end_matches([')', ',']);
            let text = text.rsplit(')').next()?;
            match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        };
        let pair = |line: &'_ str| {
            let mut words = line.split_whitespace().filter(|&word| word != "#define");
            let (name, value) = (words.next()?, words.find(|&word| word != "=")?);
            let name = &line[line.find(name)?..][..name.len()];
            name.starts_with("MPI_").then_some(())?;
            Some((name.len(), line.find(name)?, number(value)?))
        };
        let lines = header.lines();
        lines
            .filter_map(|line| {
                let (len, start, value) = pair(line)?;
                Some((&line[start..start + len], value))
            })
            .collect()
    }

    const USED: [(&str, i64); 22] = [
        ("MPI_SUCCESS", SUCCESS as i64),
        ("MPI_COMM_NULL", COMM_NULL as i64),
        ("MPI_COMM_WORLD", COMM_WORLD as i64),
        ("MPI_ERRORS_RETURN", ERRORS_RETURN as i64),
        ("MPI_REQUEST_NULL", REQUEST_NULL as i64),
        ("MPI_SUM", SUM as i64),
        ("MPI_MIN", MIN as i64),
        ("MPI_MAX", MAX as i64),
        ("MPI_FLOAT", FLOAT as i64),
        ("MPI_INT8_T", INT8_T as i64),
        ("MPI_UINT8_T", UINT8_T as i64),
        ("MPI_INT32_T", INT32_T as i64),
        ("MPI_UINT32_T", UINT32_T as i64),
        ("MPI_INT64_T", INT64_T as i64),
        ("MPI_UINT64_T", UINT64_T as i64),
        ("MPI_IN_PLACE", IN_PLACE as i64),
        ("MPI_STATUS_IGNORE", 0),
        ("MPI_ANY_SOURCE", ANY_SOURCE as i64),
        ("MPI_THREAD_SERIALIZED", THREAD_SERIALIZED as i64),
        ("MPI_MAX_ERROR_STRING", MAX_ERROR_STRING as i64),
        ("MPI_ABI_VERSION", 1),
        ("MPI_VERSION", 5),
    ];

    #[test]
    fn the_numbers_are_those_of_the_header() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mpi");
        let headers: Vec<_> = std::fs::read_dir(&root)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                std::fs::read_to_string(entry.ok()?.path().join("include/mpi_abi.h")).ok()
            })
            .collect();
        if headers.is_empty() {
            println!(
                "SKIPPED: no mpi_abi.h in target/mpi: `cargo xtask ci --only mpi` puts one there"
            );
        }
        for header in headers {
            let numbers = numbers(&header);
            for (name, value) in USED {
                assert_eq!(numbers.get(name), Some(&value), "{name}");
            }
        }
    }

    #[test]
    fn reads_both_forms_of_a_number() {
        let read = numbers(
            "#define MPI_FLOAT   ((MPI_Datatype)0x00000210)\n  MPI_ANY_SOURCE   = -1,\n#define MPI_X 512 /* y */",
        );
        assert_eq!(
            read,
            BTreeMap::from([("MPI_FLOAT", 0x210), ("MPI_ANY_SOURCE", -1), ("MPI_X", 512)])
        );
    }
}
