//! TensorBoard event files: scalars over steps, as protobuf messages in TFRecord frames.
//!
//! # Source
//! TensorBoard, `compat/proto/event.proto` and `summary.proto`: of `Event` the fields wall_time = 1, step = 2, file_version = 3,
//! summary = 5 and source_metadata = 10 (writer = 1); of `Summary` value = 1; of `Summary.Value` tag = 1 and simple_value = 2.

use std::fs;
use std::path::Path;

use prost::Message;

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
    /// Its curve's name, as `train/td_loss`.
    pub tag: String,
    /// The value.
    pub value: f32,
}

/// The values of an event file, in its order. Values of other kinds than plain scalars are passed over.
///
/// # Errors
/// When the file cannot be read, or a record in it is damaged or torn.
///
/// ```
/// # let scratch = tempfile::tempdir().unwrap();
/// # let folder = shardgraph_job::Folder::of_new_run(scratch.path(), &[], &[])?;
/// # let mut metrics = folder.open_metrics(1e9)?;
/// #[derive(serde::Serialize)]
/// struct Report { step: u64 }
/// metrics.append(1e9, &Report { step: 1 }, &[("train/epsilon", 0.25)])?;
/// let scalars = shardgraph_job::read_scalars(metrics.events_path())?;
/// assert_eq!((scalars[0].step, scalars[0].tag.as_str(), scalars[0].value), (1, "train/epsilon", 0.25));
/// # Ok::<(), shardgraph_job::Error>(())
/// ```
pub fn read_scalars(path: &Path) -> Result<Vec<Scalar>, Error> {
    let bytes = fs::read(path).map_err(Error::io(path))?;
    let (mut scalars, mut n_read) = (Vec::new(), 0);
    for record in Records(&bytes) {
        let Some(event) = record.data.and_then(decoded) else {
            break;
        };
        n_read += record.whole.len();
        let values = event.summary.unwrap_or_default().value.into_iter();
        scalars.extend(values.filter_map(|value| {
            Some(Scalar {
                step: event.step.unwrap_or(0),
                wall_time: event.wall_time.unwrap_or(0.0),
                tag: value.tag.unwrap_or_default(),
                value: value.simple_value?,
            })
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
    let event = Event {
        wall_time: Some(wall_time),
        file_version: Some(VERSION.to_owned()),
        source_metadata: Some(SourceMetadata {
            writer: Some(WRITER.to_owned()),
        }),
        ..Event::default()
    };
    framed(&event.encode_to_vec())
}

/// The record of a step.
pub(crate) fn record(wall_time: f64, step: u64, scalars: &[(&str, f32)]) -> Vec<u8> {
    let value = |(tag, value): &(&str, f32)| Value {
        tag: Some((*tag).to_owned()),
        simple_value: Some(*value),
    };
    let event = Event {
        wall_time: Some(wall_time),
        step: Some(step),
        summary: Some(Summary {
            value: scalars.iter().map(value).collect(),
        }),
        ..Event::default()
    };
    framed(&event.encode_to_vec())
}

/// The header and the records up to a step, without damaged ones; nothing where the file is not one of this crate.
pub(crate) fn up_to(bytes: &[u8], step: Option<u64>) -> Option<Vec<u8>> {
    let mut records = Records(bytes);
    let header = records.next()?;
    let source = decoded(header.data?)?.source_metadata?;
    if source.writer.as_deref() != Some(WRITER) {
        return None;
    }
    let mut kept = header.whole.to_vec();
    for record in records {
        let event = record.data.and_then(decoded);
        if event.is_some_and(|event| Some(event.step.unwrap_or(0)) <= step) {
            kept.extend_from_slice(record.whole);
        }
    }
    Some(kept)
}

fn decoded(bytes: &[u8]) -> Option<Event> {
    Event::decode(bytes).ok()
}

/// The fields that are read or written of `tensorflow.Event`, each optional: what is written stands in the file, zeros too.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, optional, tag = "1")]
    wall_time: Option<f64>,
    #[prost(uint64, optional, tag = "2")]
    step: Option<u64>,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "10")]
    source_metadata: Option<SourceMetadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

/// `Summary.Value`; one without a `simple_value` is an image, a histogram or the like.
#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, optional, tag = "1")]
    tag: Option<String>,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct SourceMetadata {
    #[prost(string, optional, tag = "1")]
    writer: Option<String>,
}
