//! The parts of ONNX' protobuf messages that this reader needs; what is left out, prost passes over.
//!
//! Messages inside of messages are kept as bytes and decoded when they are needed: two bytes of a file can be a whole empty
//! message, and a model's weights can be gigabytes that nobody looks at.
//!
//! # Source
//! onnx/onnx.proto of the ONNX project: field numbers and types.

use prost::bytes::Bytes;

/// `NodeProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(crate) attribute: Vec<Bytes>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "9")]
    pub(crate) metadata_props: Vec<StringEntry>,
}

/// `StringStringEntryProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StringEntry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// `AttributeProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, tag = "2")]
    pub(crate) f: f32,
    #[prost(int64, tag = "3")]
    pub(crate) i: i64,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) s: Bytes,
    /// A `TensorProto`.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) t: Bytes,
    /// A `GraphProto`.
    #[prost(bytes = "bytes", tag = "6")]
    pub(crate) g: Bytes,
    #[prost(float, repeated, tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    /// `GraphProto`s.
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub(crate) graphs: Vec<Bytes>,
}

/// `TensorProto` without its data.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorHead {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    /// 1: the data is in another file.
    #[prost(int32, tag = "14")]
    pub(crate) data_location: i32,
}

/// The data of a small `TensorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorData {
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(bytes = "bytes", tag = "9")]
    pub(crate) raw_data: Bytes,
}

/// `ValueInfoProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) kind: Option<TypeProto>,
}

/// `TypeProto`; sequences, maps and optionals are left out.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorType>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorType {
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShape>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(crate) dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) dim_param: Option<String>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}
