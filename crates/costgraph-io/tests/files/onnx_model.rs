//! A writer of ONNX models, just enough to test the reader with.

/// A model in the making; attributes belong to the node added last.
pub(crate) struct Model {
    opset: i64,
    inputs: Vec<Vec<u8>>,
    weights: Vec<Vec<u8>>,
    nodes: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

pub(crate) fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

pub(crate) fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

/// A `ValueInfoProto`; a negative dimension becomes one called `n`.
fn value_info(name: &str, elem: i64, dims: &[i64]) -> Vec<u8> {
    let dim = |&dim: &i64| match dim {
        0.. => bytes(1, &number(1, dim)),
        _ => bytes(1, &bytes(2, b"n")),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    let tensor = [number(1, elem), bytes(2, &shape)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// A `TensorProto` of 64-bit integers.
pub(crate) fn int_tensor(name: &str, dims: &[i64], values: &[i64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&d| number(1, d)).collect();
    let values: Vec<u8> = values.iter().flat_map(|&v| number(7, v)).collect();
    [dims, number(2, 7), values, bytes(8, name.as_bytes())].concat()
}

impl Model {
    pub(crate) fn new(opset: i64) -> Model {
        Model {
            opset,
            inputs: Vec::new(),
            weights: Vec::new(),
            nodes: Vec::new(),
            outputs: Vec::new(),
        }
    }

    pub(crate) fn input(mut self, name: &str, elem: i64, dims: &[i64]) -> Model {
        self.inputs.push(value_info(name, elem, dims));
        self
    }

    pub(crate) fn declare(mut self, name: &str, elem: i64, dims: &[i64]) -> Model {
        self.outputs.push(value_info(name, elem, dims));
        self
    }

    pub(crate) fn weight(mut self, tensor: Vec<u8>) -> Model {
        self.weights.push(tensor);
        self
    }

    /// A vector of 64-bit integers among the weights.
    pub(crate) fn known(self, name: &str, values: &[i64]) -> Model {
        self.weight(int_tensor(name, &[values.len() as i64], values))
    }

    pub(crate) fn node(mut self, op: &str, inputs: &[&str], outputs: &[&str]) -> Model {
        let mut node = Vec::new();
        inputs
            .iter()
            .for_each(|name| node.extend(bytes(1, name.as_bytes())));
        outputs
            .iter()
            .for_each(|name| node.extend(bytes(2, name.as_bytes())));
        node.extend(bytes(4, op.as_bytes()));
        self.nodes.push(node);
        self
    }

    pub(crate) fn domain(mut self, domain: &str) -> Model {
        let node = self.nodes.last_mut().unwrap();
        node.extend(bytes(7, domain.as_bytes()));
        self
    }

    fn attribute(mut self, name: &str, content: Vec<u8>) -> Model {
        let attribute = [bytes(1, name.as_bytes()), content].concat();
        let node = self.nodes.last_mut().unwrap();
        node.extend(bytes(5, &attribute));
        self
    }

    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Model {
        let content = values.iter().flat_map(|&v| number(8, v)).collect();
        self.attribute(name, content)
    }

    pub(crate) fn int(self, name: &str, value: i64) -> Model {
        self.attribute(name, number(3, value))
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Model {
        self.attribute(name, bytes(4, value.as_bytes()))
    }

    pub(crate) fn subgraph(self, name: &str, graph: &[u8]) -> Model {
        self.attribute(name, bytes(6, graph))
    }

    pub(crate) fn tensor(self, name: &str, tensor: &[u8]) -> Model {
        self.attribute(name, bytes(5, tensor))
    }

    /// The `GraphProto` alone.
    pub(crate) fn graph(&self) -> Vec<u8> {
        let part = |field: u64, parts: &[Vec<u8>]| -> Vec<u8> {
            parts.iter().flat_map(|p| bytes(field, p)).collect()
        };
        [
            part(1, &self.nodes),
            part(5, &self.weights),
            part(11, &self.inputs),
            part(12, &self.outputs),
        ]
        .concat()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let opset = number(2, self.opset);
        [number(1, 8), bytes(7, &self.graph()), bytes(8, &opset)].concat()
    }
}
