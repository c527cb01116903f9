//! TensorBoard event files: scalars over steps, as protobuf messages in TFRecord frames.
//!
//! # Source
//! TensorBoard, `compat/proto/event.proto` and `summary.proto`: of `Event` the fields wall_time = 1, step = 2, file_version = 3,
//! summary = 5 and source_metadata = 10 (writer = 1); of `Summary` value = 1; of `Summary.Value` tag = 1 and simple_value = 2.

use std::fs;
use std::path::Path;

use crate::Error;
use crate::tfrecord::{Records, framed};

const VERSION: &str = "brain.Event:2";
/// Says in a file's first record whose file it is.
const WRITER: &str = "shardgraph";

/// One value of an event file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// The step that it belongs to.
    pub step: u64,
    /// When it was written, in seconds of the Unix epoch.
    pub wall_time: f64,
    /// Its curve's name, as `losses/td_loss`.
    pub tag: String,
    /// The value.
    pub value: f32,
}

/// The values of an event file, in its order. Values of other kinds than plain scalars are passed over.
///
/// # Errors
/// Where the file cannot be read, or a record in it is damaged or torn.
///
/// ```
/// # let scratch = tempfile::tempdir().unwrap();
/// # let folder = shardgraph_runs::Folder::of_new_run(scratch.path(), &[], &[])?;
/// # let mut metrics = folder.open_metrics(1e9)?;
/// #[derive(serde::Serialize)]
/// struct Report { step: u64 }
/// metrics.append(1e9, &Report { step: 1 }, &[("charts/epsilon", 0.25)])?;
/// let scalars = shardgraph_runs::read_scalars(metrics.events_path())?;
/// assert_eq!((scalars[0].step, scalars[0].tag.as_str(), scalars[0].value), (1, "charts/epsilon", 0.25));
/// # Ok::<(), shardgraph_runs::Error>(())
/// ```
pub fn read_scalars(path: &Path) -> Result<Vec<Scalar>, Error> {
    let bytes = fs::read(path).map_err(Error::io(path))?;
    let (mut scalars, mut n_read) = (Vec::new(), 0);
    for record in Records(&bytes) {
        let Some(event) = record.data.and_then(Event::decode) else {
            break;
        };
        n_read += record.whole.len();
        scalars.extend(event.values.into_iter().map(|(tag, value)| Scalar {
            step: event.step,
            wall_time: event.wall_time,
            tag: tag.to_owned(),
            value,
        }));
    }
    if n_read == bytes.len() {
        return Ok(scalars);
    }
    let reason = format!(
        "the record at byte {n_read} of {} is damaged or torn; resuming the run cuts off a torn end",
        bytes.len()
    );
    Err(Error::damaged(path.display(), reason))
}

/// The first record of a file.
pub(crate) fn header(wall_time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    put_fixed64(&mut event, 1, wall_time);
    put_bytes(&mut event, 3, VERSION.as_bytes());
    let mut source = Vec::new();
    put_bytes(&mut source, 1, WRITER.as_bytes());
    put_bytes(&mut event, 10, &source);
    framed(&event)
}

/// The record of a step.
pub(crate) fn record(wall_time: f64, step: u64, scalars: &[(&str, f32)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in scalars {
        let mut scalar = Vec::new();
        put_bytes(&mut scalar, 1, tag.as_bytes());
        put_fixed32(&mut scalar, 2, *value);
        put_bytes(&mut summary, 1, &scalar);
    }
    let mut event = Vec::new();
    put_fixed64(&mut event, 1, wall_time);
    put_key(&mut event, 2, VARINT);
    put_varint(&mut event, step);
    put_bytes(&mut event, 5, &summary);
    framed(&event)
}

/// The header and the records up to a step, without damaged ones; nothing where the file is not one of this crate.
pub(crate) fn up_to(bytes: &[u8], step: Option<u64>) -> Option<Vec<u8>> {
    let mut records = Records(bytes);
    let header = records.next()?;
    if Event::decode(header.data?)?.writer != Some(WRITER) {
        return None;
    }
    let mut kept = header.whole.to_vec();
    for record in records {
        let event = record.data.and_then(Event::decode);
        if event.is_some_and(|event| Some(event.step) <= step) {
            kept.extend_from_slice(record.whole);
        }
    }
    Some(kept)
}

/// What is read of an event.
#[derive(Default)]
struct Event<'a> {
    wall_time: f64,
    step: u64,
    writer: Option<&'a str>,
    values: Vec<(&'a str, f32)>,
}

impl<'a> Event<'a> {
    fn decode(mut bytes: &'a [u8]) -> Option<Event<'a>> {
        let mut event = Event::default();
        while !bytes.is_empty() {
            match field(&mut bytes)? {
                (1, Field::Fixed64(bits)) => event.wall_time = f64::from_bits(bits),
                (2, Field::Varint(step)) => event.step = step,
                (5, Field::Bytes(summary)) => event.values.extend(values(summary)?),
                (10, Field::Bytes(source)) => event.writer = writer(source)?,
                _ => {}
            }
        }
        Some(event)
    }
}

fn values(mut summary: &[u8]) -> Option<Vec<(&str, f32)>> {
    let mut values = Vec::new();
    while !summary.is_empty() {
        if let (1, Field::Bytes(value)) = field(&mut summary)? {
            values.extend(scalar(value)?);
        }
    }
    Some(values)
}

/// A value without a `simple_value` is an image, a histogram or the like.
fn scalar(mut value: &[u8]) -> Option<Option<(&str, f32)>> {
    let (mut tag, mut simple_value) = ("", None);
    while !value.is_empty() {
        match field(&mut value)? {
            (1, Field::Bytes(bytes)) => tag = std::str::from_utf8(bytes).ok()?,
            (2, Field::Fixed32(bits)) => simple_value = Some(f32::from_bits(bits)),
            _ => {}
        }
    }
    Some(simple_value.map(|value| (tag, value)))
}

fn writer(mut source: &[u8]) -> Option<Option<&str>> {
    let mut writer = None;
    while !source.is_empty() {
        if let (1, Field::Bytes(bytes)) = field(&mut source)? {
            writer = Some(std::str::from_utf8(bytes).ok()?);
        }
    }
    Some(writer)
}

// The four wire types of protobuf.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Takes a field off a message, with its number; none where the bytes are no message.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(bytes)?;
    let field = match key & 7 {
        VARINT => Field::Varint(varint(bytes)?),
        FIXED64 => Field::Fixed64(u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?)),
        BYTES => {
            let n_bytes = usize::try_from(varint(bytes)?).ok()?;
            Field::Bytes(bytes.split_off(..n_bytes)?)
        }
        FIXED32 => Field::Fixed32(u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?)),
        _ => return None,
    };
    Some((key >> 3, field))
}

/// Seven bits a byte, the lowest first, the top bit set on all but the last.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_key(out: &mut Vec<u8>, number: u64, wire_type: u64) {
    put_varint(out, number << 3 | wire_type);
}

fn put_fixed64(out: &mut Vec<u8>, number: u64, value: f64) {
    put_key(out, number, FIXED64);
    out.extend(value.to_le_bytes());
}

fn put_fixed32(out: &mut Vec<u8>, number: u64, value: f32) {
    put_key(out, number, FIXED32);
    out.extend(value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_key(out, number, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
