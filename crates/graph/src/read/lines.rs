//! Text in lines and fields, at byte level: what every reader stands on, with the place of each byte for error messages.
//!
//! Rules for all formats: lines end in LF, CRLF or CR; a UTF-8 byte-order mark is skipped and a UTF-16 one
//! refused; a line is at most [`MAX_LINE`] bytes; blanks are spaces and tabs; any other byte, NUL included, is part of a
//! field and fails there. Comments are never decoded, so they may hold any bytes.

use crate::{Error, ErrorKind};
use shardgraph_storage::{Source, unpacking_error};
use std::{fmt, io::Read, ops::Range};

use super::fields::{Field, Fields, is_blank, shortened};

/// The longest line that is read, in bytes. A METIS line is a node's whole row and may be longer.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// The longest METIS row that is read, in bytes: some 25 million neighbours.
pub(crate) const MAX_ROW_LINE: usize = 1 << 28;

const CHUNK: usize = 1 << 16;

/// One line without its end, and where it is.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) number: u64,
    pub(crate) file: &'a str,
}

impl<'a> Line<'a> {
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields::new(self)
    }

    pub(crate) fn is_blank(self) -> bool {
        self.bytes.iter().all(|&byte| is_blank(byte))
    }

    /// The first byte that is no blank.
    pub(crate) fn first(self) -> Option<u8> {
        self.bytes.iter().copied().find(|&byte| !is_blank(byte))
    }

    /// An error at `column` (from 1).
    pub(crate) fn error(self, kind: ErrorKind, column: u64, message: impl Into<String>) -> Error {
        Error::new(kind, message).or_at(self.file, self.number, column)
    }

    /// A syntax error at `column`: what was expected there, and the field that was found (`None`: the line ended).
    pub(crate) fn expected(
        self,
        column: u64,
        expected: fmt::Arguments<'_>,
        found: Option<&[u8]>,
    ) -> Error {
        self.wrong(ErrorKind::Syntax, column, expected, found)
    }

    /// The same for a field that is well-formed and out of its range.
    pub(crate) fn out_of_range(self, field: Field<'_>, expected: fmt::Arguments<'_>) -> Error {
        let found = Some(field.bytes);
        self.wrong(ErrorKind::OutOfRange, field.column, expected, found)
    }

    #[cold]
    fn wrong(
        self,
        kind: ErrorKind,
        column: u64,
        expected: fmt::Arguments<'_>,
        found: Option<&[u8]>,
    ) -> Error {
        let found = found.map_or("the end of the line".to_owned(), shortened);
        self.error(kind, column, format!("expected {expected}, found {found}"))
    }
}

/// Streams the lines of a source through one buffer that grows to the longest line, up to [`MAX_LINE`].
pub(crate) struct Lines<'a> {
    max_line: usize,
    source: Box<dyn Read + 'a>,
    file: &'a str,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    /// The last line ended in CR: an LF that follows belongs to it.
    skip_lf: bool,
    number: u64,
    bytes_before: u64,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: &'a str, source: Box<dyn Read + 'a>) -> Result<Lines<'a>, Error> {
        let mut lines = Lines {
            max_line: MAX_LINE,
            source,
            file,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            at_end: false,
            skip_lf: false,
            number: 0,
            bytes_before: 0,
        };
        lines.skip_mark()?;
        Ok(lines)
    }

    /// The unpacked lines of a source, from the start.
    pub(crate) fn open(source: &'a Source<'_>) -> Result<Lines<'a>, Error> {
        Lines::new(source.name(), source.unpacked()?)
    }

    fn skip_mark(&mut self) -> Result<(), Error> {
        while self.end < 3 && !self.at_end {
            self.fill()?;
        }
        let head = &self.buffer[..self.end];
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            let message = "expected UTF-8 or ASCII text, found UTF-16: save the file as UTF-8";
            return Err(Error::new(ErrorKind::Syntax, message).or_at(self.file, 1, 1));
        }
        if head.starts_with(&[0xef, 0xbb, 0xbf]) {
            self.start = 3;
        }
        Ok(())
    }

    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    /// The same lines with room for METIS rows.
    pub(crate) fn with_long_rows(mut self) -> Lines<'a> {
        self.max_line = MAX_ROW_LINE;
        self
    }

    /// Bytes of text that were handed out so far.
    pub(crate) fn bytes_seen(&self) -> u64 {
        self.bytes_before + self.start as u64
    }

    /// An error where the next line should have begun.
    pub(crate) fn expected_at_end(&self, expected: fmt::Arguments<'_>) -> Error {
        let message = format!("expected {expected}, found the end of the file");
        Error::new(ErrorKind::Syntax, message).or_at(self.file, self.number + 1, 1)
    }

    /// An error at a place that was passed earlier.
    pub(crate) fn error_at(
        &self,
        line: u64,
        column: u64,
        kind: ErrorKind,
        message: String,
    ) -> Error {
        Error::new(kind, message).or_at(self.file, line, column)
    }

    /// The next line, `None` at the end; a last line without an end counts, an empty one does not.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        let range = self.advance()?;
        Ok(range.map(|range| self.line(range)))
    }

    /// The next line that is not blank.
    pub(crate) fn next_filled(&mut self) -> Result<Option<Line<'_>>, Error> {
        self.next_where(|line| !line.is_blank())
    }

    /// The next line that is not blank and does not begin with `mark`.
    pub(crate) fn next_filled_but_comments(&mut self, mark: u8) -> Result<Option<Line<'_>>, Error> {
        self.next_where(|line| line.first().is_some_and(|first| first != mark))
    }

    /// The next line that does not begin with `mark`; blank lines come too.
    pub(crate) fn next_but_comments(&mut self, mark: u8) -> Result<Option<Line<'_>>, Error> {
        self.next_where(|line| line.first() != Some(mark))
    }

    /// The next line that is not blank and does not begin with `mark`, which has to be there.
    pub(crate) fn require(
        &mut self,
        mark: u8,
        expected: fmt::Arguments<'_>,
    ) -> Result<Line<'_>, Error> {
        while let Some(range) = self.advance()? {
            if self
                .line(range.clone())
                .first()
                .is_some_and(|first| first != mark)
            {
                return Ok(self.line(range));
            }
        }
        Err(self.expected_at_end(expected))
    }

    fn next_where(&mut self, wanted: impl Fn(Line<'_>) -> bool) -> Result<Option<Line<'_>>, Error> {
        while let Some(range) = self.advance()? {
            if wanted(self.line(range.clone())) {
                return Ok(Some(self.line(range)));
            }
        }
        Ok(None)
    }

    fn line(&self, range: Range<usize>) -> Line<'_> {
        Line {
            bytes: &self.buffer[range],
            number: self.number,
            file: self.file,
        }
    }

    /// Moves past the next line and its end, and returns where the line lies in the buffer.
    fn advance(&mut self) -> Result<Option<Range<usize>>, Error> {
        let Some(len) = self.find_end()? else {
            return Ok(None);
        };
        let first = self.start;
        let last = first + len;
        self.start = (last + 1).min(self.end);
        self.skip_lf = last < self.end && self.buffer[last] == b'\r';
        self.number += 1;
        Ok(Some(first..last))
    }

    /// The length of the line at `start`, reading on until its end is there.
    fn find_end(&mut self) -> Result<Option<usize>, Error> {
        let mut searched = 0;
        loop {
            if self.skip_lf && self.start < self.end {
                self.skip_lf = false;
                self.start += usize::from(self.buffer[self.start] == b'\n');
            }
            let text = &self.buffer[self.start + searched..self.end];
            if let Some(at) = text.iter().position(|&b| b == b'\n' || b == b'\r') {
                return Ok(Some(searched + at));
            }
            searched = self.end - self.start;
            if self.at_end {
                return Ok((searched > 0).then_some(searched));
            }
            if searched > self.max_line {
                return Err(self.too_long());
            }
            self.fill()?;
        }
    }

    fn too_long(&self) -> Error {
        let max = self.max_line;
        let message = format!("expected lines of at most {max} bytes, found a longer one");
        self.error_at(self.number + 1, 1, ErrorKind::Syntax, message)
    }

    /// Makes room behind the unread text and reads one piece.
    fn fill(&mut self) -> Result<(), Error> {
        self.bytes_before += self.start as u64;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.end, 0);
        }
        let n = loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let n = n.map_err(|e| unpacking_error(e, self.file, self.number + 1))?;
        self.at_end = n == 0;
        self.end += n;
        Ok(())
    }
}
