//! `CostGraphDef` in protobuf's text form: `node { name: "a" id: 1 ... }`, fields in any order, `#` comments.
//!
//! The grammar is protobuf's text format as far as this message needs it: `{}` or `<>` around messages, `:` optional before
//! them, `,` or `;` between fields, lists in brackets, decimal, hexadecimal and octal integers, adjacent strings joined.

use super::{
    Imported, ReadOptions, Report,
    cost_graph::{Assembly, InputInfo, Node, OutputInfo, Spot},
};
use shardgraph_costgraph::{Error, ErrorKind};

/// Messages in messages, as deep as protobuf's own readers go.
const MAX_DEPTH: u32 = 100;

const NODE_FIELDS: &str = "name, device, id, input_info, output_info, temporary_memory_size, is_final, control_input, \
    compute_cost, compute_time, memory_time, host_temp_memory_size, device_temp_memory_size, persistent_memory_size, \
    device_persistent_memory_size, inaccurate";

pub(crate) fn read(
    file: &str,
    graph_name: &str,
    content: &[u8],
    options: &ReadOptions,
    report: Report,
) -> Result<Imported, Error> {
    let mut text = Text {
        file,
        bytes: content,
        at: 0,
        line: 1,
        line_start: 0,
    };
    let mut assembly = Assembly::new(file, graph_name, options, report);
    while let Some(field) = text.field(None)? {
        match field.name {
            "node" => {
                let node = text.node()?;
                assembly.node(node, field.spot)?;
            }
            "cost" => text.skip(0)?,
            other => return Err(text.unknown(field.spot, other, "a graph has node and cost")),
        }
    }
    assembly.finish()
}

/// The text and how far it is read.
struct Text<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u64,
    line_start: usize,
}

struct Name<'a> {
    name: &'a str,
    spot: Spot,
}

impl<'a> Text<'a> {
    fn node(&mut self) -> Result<Node, Error> {
        let close = self.open()?;
        let mut node = Node::default();
        while let Some(field) = self.field(Some(close))? {
            match field.name {
                "name" => node.name = self.string()?,
                "id" => node.id = self.int32()?,
                "input_info" => self.input_info(&mut node.input_info)?,
                "output_info" => self.output_info(&mut node.output_info)?,
                "control_input" => self.controls(&mut node.control_input)?,
                "compute_cost" => node.compute_cost = self.int64()?,
                "temporary_memory_size" => node.temporary_memory_size = self.int64()?,
                "persistent_memory_size" => node.persistent_memory_size = self.int64()?,
                "host_temp_memory_size" => node.host_temp_memory_size = self.int64()?,
                "device_temp_memory_size" => node.device_temp_memory_size = self.int64()?,
                "device_persistent_memory_size" => {
                    node.device_persistent_memory_size = self.int64()?;
                }
                "device" | "is_final" | "compute_time" | "memory_time" | "inaccurate" => {
                    self.skip(0)?;
                }
                other => {
                    let known = format!("a node has {NODE_FIELDS}");
                    return Err(self.unknown(field.spot, other, &known));
                }
            }
        }
        Ok(node)
    }

    fn input_info(&mut self, into: &mut Vec<InputInfo>) -> Result<(), Error> {
        let close = self.open()?;
        let mut info = InputInfo::default();
        while let Some(field) = self.field(Some(close))? {
            match field.name {
                "preceding_node" => info.preceding_node = self.int32()?,
                "preceding_port" => info.preceding_port = self.int32()?,
                other => {
                    let known = "an input_info has preceding_node and preceding_port";
                    return Err(self.unknown(field.spot, other, known));
                }
            }
        }
        into.push(info);
        Ok(())
    }

    fn output_info(&mut self, into: &mut Vec<OutputInfo>) -> Result<(), Error> {
        let close = self.open()?;
        let mut info = OutputInfo::default();
        while let Some(field) = self.field(Some(close))? {
            match field.name {
                "size" => info.size = self.int64()?,
                "alias_input_port" => info.alias_input_port = self.int64()?,
                "shape" | "dtype" => self.skip(0)?,
                other => {
                    let known = "an output_info has size, alias_input_port, shape and dtype";
                    return Err(self.unknown(field.spot, other, known));
                }
            }
        }
        into.push(info);
        Ok(())
    }

    /// One id, or several in brackets.
    fn controls(&mut self, into: &mut Vec<i32>) -> Result<(), Error> {
        self.colon()?;
        if !self.eat(b'[') {
            into.push(self.bare_int32()?);
            return Ok(());
        }
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            into.push(self.bare_int32()?);
            if self.eat(b']') {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    /// The next field's name; `None` at `close`, or at the end of the text when there is none.
    fn field(&mut self, close: Option<u8>) -> Result<Option<Name<'a>>, Error> {
        while self.eat(b',') || self.eat(b';') {}
        let spot = self.spot();
        match (self.peek(), close) {
            (None, None) => return Ok(None),
            (None, Some(close)) => {
                let expected = format!("`{}` to end the message", close as char);
                return Err(self.expected(&expected));
            }
            (Some(byte), Some(close)) if byte == close => {
                self.at += 1;
                return Ok(None);
            }
            _ => {}
        }
        let name = self.word();
        if name.is_empty() {
            return Err(self.expected("the name of a field"));
        }
        Ok(Some(Name { name, spot }))
    }

    /// The beginning of a message; returns what ends it.
    fn open(&mut self) -> Result<u8, Error> {
        self.eat(b':');
        if self.eat(b'{') {
            Ok(b'}')
        } else if self.eat(b'<') {
            Ok(b'>')
        } else {
            Err(self.expected("`{`"))
        }
    }

    fn colon(&mut self) -> Result<(), Error> {
        if self.eat(b':') {
            return Ok(());
        }
        Err(self.expected("`:` and a value"))
    }

    /// A value of any type that nothing needs.
    fn skip(&mut self, depth: u32) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.expected("messages nested less than 100 deep"));
        }
        self.eat(b':');
        match self.peek() {
            Some(b'{' | b'<') => {
                let close = self.open()?;
                while self.field(Some(close))?.is_some() {
                    self.skip(depth + 1)?;
                }
                Ok(())
            }
            Some(b'[') => {
                self.at += 1;
                while !self.eat(b']') {
                    self.skip(depth + 1)?;
                    self.eat(b',');
                }
                Ok(())
            }
            Some(b'"' | b'\'') => self.bare_string().map(drop),
            _ => {
                self.eat(b'-');
                match self.word() {
                    "" => Err(self.expected("a value")),
                    // A float with a negative exponent.
                    word if word.ends_with(['e', 'E']) && self.eat(b'-') => {
                        self.word();
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn int32(&mut self) -> Result<i32, Error> {
        self.colon()?;
        self.bare_int32()
    }

    fn bare_int32(&mut self) -> Result<i32, Error> {
        let spot = self.spot();
        let value = self.bare_int()?;
        i32::try_from(value).map_err(|_| {
            let message = format!("{value} is not a number from -2^31 to 2^31 - 1");
            spot.error(self.file, ErrorKind::OutOfRange, &message)
        })
    }

    fn int64(&mut self) -> Result<i64, Error> {
        self.colon()?;
        self.bare_int()
    }

    fn bare_int(&mut self) -> Result<i64, Error> {
        let negative = self.eat(b'-');
        self.skip_blanks();
        let start = (self.at, self.spot());
        let digits = self.word();
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            self.at = start.0;
            return Err(self.expected("an integer"));
        }
        let magnitude = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => i128::from_str_radix(&digits[2..], 16),
            [b'0', _, ..] => i128::from_str_radix(&digits[1..], 8),
            _ => digits.parse(),
        };
        let (_, spot) = start;
        let Ok(magnitude) = magnitude else {
            let message = format!("expected an integer, found `{}`", shown(digits));
            return Err(spot.error(self.file, ErrorKind::Syntax, &message));
        };
        let value = if negative { -magnitude } else { magnitude };
        i64::try_from(value).map_err(|_| {
            let message = format!("{value} is not a number from -2^63 to 2^63 - 1");
            spot.error(self.file, ErrorKind::OutOfRange, &message)
        })
    }

    fn string(&mut self) -> Result<String, Error> {
        self.colon()?;
        let spot = self.spot();
        let bytes = self.bare_string()?;
        String::from_utf8(bytes).map_err(|_| {
            let message = "expected a string in UTF-8";
            spot.error(self.file, ErrorKind::Syntax, message)
        })
    }

    /// One or more strings in quotes, joined.
    fn bare_string(&mut self) -> Result<Vec<u8>, Error> {
        if !matches!(self.peek(), Some(b'"' | b'\'')) {
            return Err(self.expected("a string in quotes"));
        }
        let mut bytes = Vec::new();
        while let Some(quote @ (b'"' | b'\'')) = self.peek() {
            self.at += 1;
            self.quoted(quote, &mut bytes)?;
        }
        Ok(bytes)
    }

    fn quoted(&mut self, quote: u8, into: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            match self.bytes.get(self.at) {
                None | Some(b'\n') => return Err(self.expected("the quote that ends the string")),
                Some(&byte) if byte == quote => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    let byte = self.escape()?;
                    into.push(byte);
                }
                Some(&byte) => {
                    self.at += 1;
                    into.push(byte);
                }
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<u8, Error> {
        let rest = &self.bytes[self.at..];
        let digits = |rest: &[u8], most: usize, radix: u32| {
            let is_digit = |&&b: &&u8| (b as char).is_digit(radix);
            rest.iter().take(most).take_while(is_digit).count()
        };
        let (value, n_bytes) = match rest.first() {
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'r') => (b'\r', 1),
            Some(&byte @ (b'\\' | b'\'' | b'"' | b'?')) => (byte, 1),
            Some(b'0'..=b'7') => {
                let n = digits(rest, 3, 8);
                (value_of(&rest[..n], 8), n)
            }
            Some(b'x') if digits(&rest[1..], 2, 16) > 0 => {
                let n = digits(&rest[1..], 2, 16);
                (value_of(&rest[1..=n], 16), n + 1)
            }
            _ => return Err(self.expected("an escape such as \\n, \\\", \\101 or \\x41")),
        };
        self.at += n_bytes;
        Ok(value)
    }

    /// Letters, digits and what numbers have inside; empty when the next byte is none of them.
    fn word(&mut self) -> &'a str {
        self.skip_blanks();
        let rest = &self.bytes[self.at..];
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'+');
        let n_bytes = rest.iter().take_while(is_part).count();
        self.at += n_bytes;
        std::str::from_utf8(&rest[..n_bytes]).unwrap_or_default()
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Past white space and comments.
    fn skip_blanks(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                }
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().take_while(|&&b| b != b'\n').count();
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    fn spot(&mut self) -> Spot {
        self.skip_blanks();
        Spot::Text(self.line, (self.at - self.line_start) as u64 + 1)
    }

    #[cold]
    fn expected(&mut self, what: &str) -> Error {
        let spot = self.spot();
        let rest = &self.bytes[self.at..];
        let is_end = |b: &&u8| !b.is_ascii_whitespace();
        let n_bytes = rest.iter().take(24).take_while(is_end).count();
        let found = match n_bytes {
            0 => "the end of the text".to_owned(),
            _ => format!("`{}`", String::from_utf8_lossy(&rest[..n_bytes])),
        };
        let message = format!("expected {what}, found {found}");
        spot.error(self.file, ErrorKind::Syntax, &message)
    }

    #[cold]
    fn unknown(&self, spot: Spot, name: &str, known: &str) -> Error {
        let message = format!("unknown field `{}`; {known}", shown(name));
        spot.error(self.file, ErrorKind::Syntax, &message)
    }
}

/// The value of a few digits; an octal escape beyond 255 keeps its low byte.
fn value_of(digits: &[u8], radix: u32) -> u8 {
    let add = |sum: u32, &digit: &u8| sum * radix + (digit as char).to_digit(radix).unwrap_or(0);
    digits.iter().fold(0, add) as u8
}

fn shown(text: &str) -> String {
    text.chars().take(24).collect()
}
