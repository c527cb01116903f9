//! Lines of an unpacked file, each with its number, through one buffer.

use std::io::{BufRead, BufReader, Read};

use shardgraph_storage::unpacking_error;

use crate::Error;

/// The longest line that is read, in bytes. Literals of published RDF files reach some 100 KiB.
const MAX_LINE: usize = 1 << 24;

/// One line without its end.
#[derive(Clone, Copy)]
pub(crate) struct Line<'l> {
    pub(crate) bytes: &'l [u8],
    pub(crate) number: u64,
    pub(crate) file: &'l str,
}

impl<'l> Line<'l> {
    /// An error at `column`, counted in bytes from 1.
    pub(crate) fn error(
        self,
        kind: fn(String) -> Error,
        column: usize,
        reason: impl AsRef<str>,
    ) -> Error {
        Error::at(kind, self.file, self.number, column as u64, reason.as_ref())
    }

    /// The line as text, or the column of the first byte that is no UTF-8.
    pub(crate) fn text(self) -> Result<&'l str, usize> {
        std::str::from_utf8(self.bytes).map_err(|error| error.valid_up_to() + 1)
    }

    pub(crate) fn is_blank(self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }
}

/// Streams the lines of a file; a line ends in LF or CRLF, a byte-order mark is passed over.
pub(crate) struct Lines<'a> {
    reader: BufReader<Box<dyn Read + 'a>>,
    file: &'a str,
    buffer: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: &'a str, source: Box<dyn Read + 'a>) -> Lines<'a> {
        Lines {
            reader: BufReader::with_capacity(1 << 16, source),
            file,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// The number of the last line that was handed out.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    /// The next line, `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        self.buffer.clear();
        self.number += 1;
        let mut limited = (&mut self.reader).take(MAX_LINE as u64 + 1);
        let n_read = limited
            .read_until(b'\n', &mut self.buffer)
            .map_err(|e| unpacking_error(e, self.file, self.number))?;
        if n_read == 0 {
            self.number -= 1;
            return Ok(None);
        }
        if n_read > MAX_LINE {
            let reason = format!("a line of more than {MAX_LINE} bytes: expected shorter ones");
            return Err(Error::at(Error::Graph, self.file, self.number, 0, &reason));
        }
        self.line().map(Some)
    }

    /// The next line that is not blank.
    pub(crate) fn next_filled(&mut self) -> Result<Option<Line<'_>>, Error> {
        loop {
            match self.next()? {
                None => return Ok(None),
                Some(line) if line.is_blank() => {}
                Some(_) => break,
            }
        }
        self.line().map(Some)
    }

    fn line(&self) -> Result<Line<'_>, Error> {
        let bytes = &self.buffer[self.mark_len()?..];
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        Ok(Line {
            bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes),
            number: self.number,
            file: self.file,
        })
    }

    /// The length of a byte-order mark before the first line; that of UTF-16 is refused.
    fn mark_len(&self) -> Result<usize, Error> {
        if self.number > 1 {
            return Ok(0);
        }
        if self.buffer.starts_with(&[0xff, 0xfe]) || self.buffer.starts_with(&[0xfe, 0xff]) {
            let reason = "expected UTF-8, found UTF-16: save the file as UTF-8";
            return Err(Error::at(Error::Graph, self.file, 1, 1, reason));
        }
        let has_mark = self.buffer.starts_with(&[0xef, 0xbb, 0xbf]);
        Ok(if has_mark { 3 } else { 0 })
    }
}

/// A field in backquotes, unprintable bytes escaped, cut to a length that fits a message.
pub(crate) fn shortened(field: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = field[..field.len().min(SHOWN)].escape_ascii();
    let rest = if field.len() > SHOWN { "..." } else { "" };
    format!("`{shown}{rest}`")
}
