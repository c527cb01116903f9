//! One graph a line, as a JSON object: `{name, o, t, e, ops, tensors, ...}`.
//!
//! `ops` holds `[group, kind, cost_ns, flops, internal_bytes]`, `tensors` holds `[producer, bytes, alias_of, [consumers]]`.
//! `alias_of` is the number of an op, -1 for none: the tensor is a view of that op's output, namely the first of its outputs
//! that the view's producer consumes; a fifth element, where it is present, says which of its outputs instead, in the order of
//! `tensors` from 0. `o`, `t` and `e`, where they are present, must be the numbers of ops, tensors and (tensor, consumer) pairs.
//! FLOPs and groups are not used.
//!
//! Optional: `names` (one for each op), `persistent` (bytes for each op), `control` (the tensors that are control
//! dependencies: of 0 bytes, views of nothing, and nothing is a view of them), `costs` (for each further device class a cost for each op), `cpu_cost` (one further class), `devices`,
//! `cpus`, `mem_limit`. Other keys are ignored.

use super::{
    Format, Imported, Report,
    amount::{Amount, json_error},
};
use serde::{Deserialize, de::IgnoredAny};
use shardgraph_costgraph::{Error, ErrorKind, GraphBuilder, OpSpec, TensorSpec};
use std::borrow::Cow;

/// An op as the file has it: group, kind, nanoseconds, floating-point operations, scratch bytes.
type OpRow = (IgnoredAny, String, Amount, IgnoredAny, Amount);

/// A tensor as the file has it: producer, bytes, the op that it is a view of, consumers, which output of that op.
#[derive(Deserialize)]
struct TensorRow(u32, Amount, i64, Vec<u32>, #[serde(default)] Option<u32>);

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    o: Option<u64>,
    t: Option<u64>,
    e: Option<u64>,
    ops: Vec<OpRow>,
    tensors: Vec<TensorRow>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    persistent: Vec<Amount>,
    #[serde(default)]
    control: Vec<u32>,
    #[serde(default)]
    costs: Vec<Vec<Amount>>,
    cpu_cost: Option<Vec<Amount>>,
    devices: Option<u32>,
    cpus: Option<u32>,
    mem_limit: Option<Amount>,
}

/// One line of the file; `number` counts from 1.
pub(crate) fn read(file: &str, line: &[u8], number: u64) -> Result<Imported, Error> {
    let parsed: Line<'_> =
        serde_json::from_slice(line).map_err(|e| json_error(&e, file, number))?;
    graph(parsed).map_err(|e| e.or_at(file, number, 0))
}

fn graph(mut line: Line<'_>) -> Result<Imported, Error> {
    check_counts(&line)?;
    let mut report = Report::new(Format::Jsonl);
    report.devices = line.devices;
    report.cpus = line.cpus;
    if let Some(limit) = line.mem_limit {
        report.memory_bytes = Some(limit.whole(&|| "mem_limit".into())?);
    }
    let mut builder = GraphBuilder::new(line.name.clone());
    for (op, row) in std::mem::take(&mut line.ops).into_iter().enumerate() {
        builder.op(op_spec(&line, op, row)?);
    }
    tensors(line, &mut builder)?;
    Ok(Imported {
        graph: builder.build()?,
        report,
    })
}

/// The counts that the line states, against what it holds.
fn check_counts(line: &Line<'_>) -> Result<(), Error> {
    let n_ops = line.ops.len() as u64;
    let n_uses: u64 = line.tensors.iter().map(|t| t.3.len() as u64).sum();
    let stated = [
        ("o", line.o, n_ops, "ops"),
        ("t", line.t, line.tensors.len() as u64, "tensors"),
        ("e", line.e, n_uses, "(tensor, consumer) pairs"),
    ];
    for (key, stated, found, what) in stated {
        if stated.is_some_and(|stated| stated != found) {
            return Err(invalid(format!(
                "`{key}` is {}, but there are {found} {what}",
                stated.unwrap_or_default()
            )));
        }
    }
    let columns = [
        ("names", line.names.len()),
        ("persistent", line.persistent.len()),
        ("cpu_cost", line.cpu_cost.as_ref().map_or(0, Vec::len)),
    ];
    let costs = line.costs.iter().map(|class| ("costs", class.len()));
    for (key, found) in columns.into_iter().chain(costs) {
        let may_be_absent = found == 0 && key != "costs";
        if found as u64 != n_ops && !may_be_absent {
            return Err(invalid(format!(
                "`{key}` has {found} entries for {n_ops} ops; one for each op is needed"
            )));
        }
    }
    Ok(())
}

fn op_spec(line: &Line<'_>, op: usize, row: OpRow) -> Result<OpSpec, Error> {
    let (_, kind, cost, _, internal) = row;
    let what = |what: &str| format!("the {what} of op {op} (`{kind}`)");
    let mut cost_ns = vec![cost.whole(&|| what("cost"))?];
    for class in line.costs.iter().chain(line.cpu_cost.as_ref()) {
        cost_ns.push(class[op].whole(&|| what("cost on another device class"))?);
    }
    let internal_bytes = internal.whole(&|| what("internal size"))?;
    let persistent = line.persistent.get(op).copied().unwrap_or_default();
    let persistent_bytes = persistent.whole(&|| what("persistent size"))?;
    Ok(OpSpec {
        name: line.names.get(op).cloned().unwrap_or_default(),
        kind,
        cost_ns,
        internal_bytes,
        persistent_bytes,
        weights: Vec::new(),
    })
}

fn tensors(line: Line<'_>, builder: &mut GraphBuilder) -> Result<(), Error> {
    let n_ops = builder.n_ops();
    let outputs = outputs(&line.tensors, n_ops)?;
    let inputs = inputs(&line.tensors, n_ops)?;
    let is_control = control(&line)?;
    // Control tensors are the builder's to number, so the others move up.
    let mut n_data = 0;
    let number = |&is_control: &bool| {
        n_data += u32::from(!is_control);
        (!is_control).then(|| n_data - 1)
    };
    let number: Vec<Option<u32>> = is_control.iter().map(number).collect();
    for (idx, row) in line.tensors.into_iter().enumerate() {
        if is_control[idx] {
            control_edges(idx, &row, builder)?;
            continue;
        }
        let TensorRow(producer, bytes, base, consumers, port) = row;
        let bytes = bytes.whole(&|| format!("the size of tensor {idx}"))?;
        let base = base_op(idx, base, n_ops)?;
        let alias_of = match base {
            None => None,
            Some(base) => {
                let found = view_base(&outputs[base], &inputs[producer as usize], &number, port);
                Some(found.ok_or_else(|| bad_view(idx, base, producer, port))?)
            }
        };
        builder.tensor(TensorSpec {
            producer,
            bytes,
            alias_of,
            consumers,
        });
    }
    Ok(())
}

/// For each tensor whether the line lists it as a control dependency.
fn control(line: &Line<'_>) -> Result<Vec<bool>, Error> {
    let mut is_control = vec![false; line.tensors.len()];
    for &tensor in &line.control {
        let missing = || {
            invalid(format!(
                "`control` names tensor {tensor}, which does not exist"
            ))
        };
        *is_control.get_mut(tensor as usize).ok_or_else(missing)? = true;
    }
    Ok(is_control)
}

/// The op that `alias_of` names; `None` for -1.
fn base_op(tensor: usize, base: i64, n_ops: usize) -> Result<Option<usize>, Error> {
    match usize::try_from(base) {
        Err(_) if base == -1 => Ok(None),
        Ok(base) if base < n_ops => Ok(Some(base)),
        _ => Err(invalid(format!(
            "tensor {tensor} is a view of an output of op {base}, which does not exist; the ops are 0..{n_ops}, -1 is none"
        ))),
    }
}

/// The number of the base op's output that a view's producer consumes, or of the one that the row names.
fn view_base(
    outputs: &[u32],
    inputs: &[u32],
    number: &[Option<u32>],
    port: Option<u32>,
) -> Option<u32> {
    match port {
        Some(port) => number[*outputs.get(port as usize)? as usize],
        None => {
            let consumed = outputs
                .iter()
                .filter(|tensor| inputs.binary_search(tensor).is_ok());
            consumed
                .filter_map(|&tensor| number[tensor as usize])
                .next()
        }
    }
}

/// The dependencies that a control tensor stands for.
fn control_edges(tensor: usize, row: &TensorRow, builder: &mut GraphBuilder) -> Result<(), Error> {
    let TensorRow(producer, bytes, base, consumers, _) = row;
    if bytes.whole(&|| format!("the size of tensor {tensor}"))? != 0 || *base != -1 {
        return Err(invalid(format!(
            "tensor {tensor} is a control dependency; its size must be 0 and its `alias_of` -1"
        )));
    }
    consumers
        .iter()
        .for_each(|&after| builder.control(*producer, after));
    Ok(())
}

fn bad_view(tensor: usize, base: usize, producer: u32, port: Option<u32>) -> Error {
    invalid(match port {
        None => format!(
            "tensor {tensor} is a view of an output of op {base}, but its producer, op {producer}, consumes none that holds data"
        ),
        Some(port) => {
            format!(
                "tensor {tensor} is a view of output {port} of op {base}, which does not exist or is a control dependency"
            )
        }
    })
}

/// The tensors that each op produces, ascending.
fn outputs(tensors: &[TensorRow], n_ops: usize) -> Result<Vec<Vec<u32>>, Error> {
    let mut outputs = vec![Vec::new(); n_ops];
    for (tensor, row) in tensors.iter().enumerate() {
        enter(&mut outputs, row.0, tensor, "produced")?;
    }
    Ok(outputs)
}

/// The tensors that each op consumes, ascending.
fn inputs(tensors: &[TensorRow], n_ops: usize) -> Result<Vec<Vec<u32>>, Error> {
    let mut inputs = vec![Vec::new(); n_ops];
    for (tensor, row) in tensors.iter().enumerate() {
        for &consumer in &row.3 {
            enter(&mut inputs, consumer, tensor, "consumed")?;
        }
    }
    Ok(inputs)
}

fn enter(lists: &mut [Vec<u32>], op: u32, tensor: usize, what: &str) -> Result<(), Error> {
    let n_ops = lists.len();
    let list = lists.get_mut(op as usize).ok_or_else(|| {
        invalid(format!(
            "tensor {tensor} is {what} by op {op}, which does not exist; the ops are 0..{n_ops}"
        ))
    })?;
    list.push(tensor as u32);
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Graph, message)
}
