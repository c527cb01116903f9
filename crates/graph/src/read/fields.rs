//! The blank-separated fields of one line: whole numbers, node ids and weights, each error with its column.

use super::lines::Line;
use crate::Error;
use std::fmt;

/// One field and its column, counted from 1.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) column: u64,
}

/// Walks over the fields of a line.
pub(crate) struct Fields<'a> {
    line: Line<'a>,
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(line: Line<'a>) -> Fields<'a> {
        Fields { line, at: 0 }
    }

    pub(crate) fn line(&self) -> Line<'a> {
        self.line
    }

    fn skip_blanks(&mut self) {
        let rest = &self.line.bytes[self.at..];
        self.at += rest.iter().take_while(|&&byte| is_blank(byte)).count();
    }

    /// The next field, `None` at the end of the line.
    pub(crate) fn next(&mut self) -> Option<Field<'a>> {
        self.skip_blanks();
        let rest = &self.line.bytes[self.at..];
        let len = rest.iter().take_while(|&&byte| !is_blank(byte)).count();
        let column = self.at as u64 + 1;
        self.at += len;
        (len > 0).then_some(Field {
            bytes: &rest[..len],
            column,
        })
    }

    /// True if nothing but blanks is left.
    pub(crate) fn is_done(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.line.bytes.len()
    }

    /// The column where the next field begins.
    pub(crate) fn next_column(&mut self) -> u64 {
        self.skip_blanks();
        self.at as u64 + 1
    }

    /// The next field, which has to be there.
    pub(crate) fn require(&mut self, expected: fmt::Arguments<'_>) -> Result<Field<'a>, Error> {
        let missing = self.line.bytes.len() as u64 + 1;
        self.next()
            .ok_or_else(|| self.line.expected(missing, expected, None))
    }

    /// Nothing may follow.
    pub(crate) fn finish(mut self, after: &str) -> Result<(), Error> {
        match self.next() {
            None => Ok(()),
            Some(field) => {
                let expected = format_args!("the end of the line after {after}");
                Err(self
                    .line
                    .expected(field.column, expected, Some(field.bytes)))
            }
        }
    }

    /// The next field as a whole number below 2^64.
    pub(crate) fn whole(
        &mut self,
        expected: fmt::Arguments<'_>,
    ) -> Result<(u64, Field<'a>), Error> {
        let field = self.require(expected)?;
        match whole(field.bytes) {
            Some(value) => Ok((value, field)),
            None if field.bytes.iter().all(u8::is_ascii_digit) => {
                Err(self.line.out_of_range(field, expected))
            }
            None => {
                let found = Some(field.bytes);
                Err(self.line.expected(field.column, expected, found))
            }
        }
    }

    /// The next field as a node id that the file counts from 1 to `n`; the answer counts from 0.
    pub(crate) fn node(&mut self, n: u32) -> Result<u32, Error> {
        let expected = format_args!("a node id from 1 to {n}");
        let (value, field) = self.whole(expected)?;
        if value == 0 || value > u64::from(n) {
            return Err(self.line.out_of_range(field, expected));
        }
        Ok((value - 1) as u32)
    }

    /// The next field as a finite f32; Fortran's `D` exponents are read as `E`.
    pub(crate) fn weight(&mut self) -> Result<f32, Error> {
        let expected = format_args!("a finite number of at most 3.4e38 as weight");
        let field = self.require(expected)?;
        finite(field.bytes).ok_or_else(|| self.line.out_of_range(field, expected))
    }
}

pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Digits only, below 2^64.
pub(crate) fn whole(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 20 {
        return whole_with_zeros(field);
    }
    let mut value = 0u64;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Longer fields can only be numbers below 2^64 behind leading zeros.
fn whole_with_zeros(field: &[u8]) -> Option<u64> {
    let zeros = field.iter().take_while(|&&byte| byte == b'0').count();
    let rest = &field[zeros..];
    match rest.len() {
        0 => (!field.is_empty()).then_some(0),
        1..=20 => whole(rest),
        _ => None,
    }
}

/// A finite f32 in decimal notation; `inf`, `nan` and what rounds to infinity are none.
pub(crate) fn finite(field: &[u8]) -> Option<f32> {
    let is_number = |b: &u8| b.is_ascii_digit() || b"+-.eEdD".contains(b);
    if !field.iter().all(is_number) || field.len() > 400 {
        return None;
    }
    let text = std::str::from_utf8(field).ok()?;
    let value = if field.iter().any(|b| b"dD".contains(b)) {
        text.replace(['d', 'D'], "e").parse::<f32>()
    } else {
        text.parse::<f32>()
    };
    value.ok().filter(|value| value.is_finite())
}

/// A field in backquotes, unprintable bytes escaped, cut to a length that fits a message.
pub(crate) fn shortened(field: &[u8]) -> String {
    const SHOWN: usize = 24;
    let shown = field[..field.len().min(SHOWN)].escape_ascii();
    let rest = if field.len() > SHOWN { "..." } else { "" };
    format!("`{shown}{rest}`")
}
