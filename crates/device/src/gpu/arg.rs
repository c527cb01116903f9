//! The arguments of a launch, and their check against the kernel's declaration.

use super::kernels::Kernel;
use super::memory::Memory;
use crate::buffer::{Store, sealed};
use crate::{Buffer, Error, ErrorKind, Scalar};

/// An argument of a kernel.
///
/// In a signature, `f`, `u`, `i`, `U`, `h` and `b` are the scalars f32, u32, i32, u64, u16 and u8; `&` before the letter
/// is a pointer to what the kernel reads, `*` to what it writes.
#[derive(Debug)]
pub struct Arg<'a> {
    kind: Option<char>,
    letter: char,
    value: u64,
    memory: Option<Option<&'a Memory>>,
}

impl<'a> Arg<'a> {
    /// An `f32`.
    pub fn f32(value: f32) -> Self {
        Self::scalar('f', u64::from(value.to_bits()))
    }

    /// A `u32`.
    pub fn u32(value: u32) -> Self {
        Self::scalar('u', u64::from(value))
    }

    /// An `i32`.
    pub fn i32(value: i32) -> Self {
        Self::scalar('i', u64::from(value as u32)) // the same bits
    }

    /// A `u64`.
    pub fn u64(value: u64) -> Self {
        Self::scalar('U', value)
    }

    /// A buffer that the kernel reads.
    pub fn read<T: Scalar>(buffer: &'a Buffer<T>) -> Self {
        Self::pointer('&', buffer)
    }

    /// A buffer that the kernel writes (or reads and writes).
    pub fn write<T: Scalar>(buffer: &'a mut Buffer<T>) -> Self {
        Self::pointer('*', buffer)
    }

    fn scalar(letter: char, value: u64) -> Self {
        Self {
            kind: None,
            letter,
            value,
            memory: None,
        }
    }

    fn pointer<T: Scalar>(kind: char, buffer: &'a Buffer<T>) -> Self {
        let memory = match &buffer.store {
            Store::Gpu(memory) => Some(memory),
            Store::Host(_) | Store::Part(_) => None,
        };
        Self {
            kind: Some(kind),
            letter: <T as sealed::Scalar>::LETTER,
            value: memory.map_or(0, |memory| memory.address),
            memory: Some(memory),
        }
    }

    /// The argument's part of a signature.
    pub(crate) fn push_signature(&self, signature: &mut String) {
        signature.extend(self.kind);
        signature.push(self.letter);
    }

    /// The bits that the kernel gets.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// The memory behind a pointer (nothing for a buffer of the host), and whether it is written.
    pub(crate) fn memory(&self) -> Option<(Option<&'a Memory>, bool)> {
        self.memory.map(|memory| (memory, self.kind == Some('*')))
    }
}

/// The bits of the arguments, if they fit the kernel's parameters.
pub(super) fn values(kernel: &Kernel, args: &[Arg<'_>]) -> Result<Vec<u64>, Error> {
    let mut given = String::with_capacity(kernel.signature.len());
    args.iter().for_each(|arg| arg.push_signature(&mut given));
    if given == kernel.signature {
        return Ok(args.iter().map(Arg::value).collect());
    }
    Err(ErrorKind::Arguments {
        kernel: kernel.name.to_string(),
        wanted: kernel.signature.to_string(),
        given,
    }
    .into())
}
