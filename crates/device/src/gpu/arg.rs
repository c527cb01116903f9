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
    fn letters(&self) -> impl Iterator<Item = char> + Clone + use<> {
        self.kind.into_iter().chain([self.letter])
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

/// The most parameters of a kernel.
pub(super) const MAX_ARGS: usize = 32;

/// The bits of a launch's arguments, without an allocation.
#[derive(Debug)]
pub(super) struct Values {
    bits: [u64; MAX_ARGS],
    n: usize,
}

impl Values {
    /// The bits of the arguments, if they fit the kernel's parameters.
    pub(super) fn of(kernel: &Kernel, args: &[Arg<'_>]) -> Result<Self, Error> {
        let given = args.iter().flat_map(Arg::letters);
        if args.len() > MAX_ARGS || !given.clone().eq(kernel.signature.chars()) {
            return Err(ErrorKind::Arguments {
                kernel: kernel.name.to_string(),
                wanted: kernel.signature.to_string(),
                given: given.collect(),
            }
            .into());
        }
        let mut bits = [0; MAX_ARGS];
        for (bits, arg) in bits.iter_mut().zip(args) {
            *bits = arg.value();
        }
        let n = args.len();
        Ok(Self { bits, n })
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u64] {
        &mut self.bits[..self.n]
    }
}
