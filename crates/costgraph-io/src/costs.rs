//! Measured costs of ops, joined to a graph by name: a CSV file `op,seconds,output_bytes`.

use std::collections::BTreeMap;
use std::path::Path;

use super::source;
use shardgraph_costgraph::{Error, ErrorKind, Graph};

/// The first line of a file; the last column may be left out.
const HEADER: &str = "op,seconds,output_bytes";
/// The most bytes of a file.
const MAX_BYTES: u64 = 1 << 30;

/// What a file of costs said about a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Measured {
    /// Ops whose time the file has.
    pub times: usize,
    /// Ops whose outputs' size it has.
    pub sizes: usize,
}

/// A graph with the costs of a file; ops that the file does not name keep theirs, times `factor`.
///
/// The first line is `op,seconds,output_bytes` or `op,seconds`, each further one has an op's name, its time in seconds on every class
/// of devices, and the bytes of its one output. A field may be empty: what the graph has then stays. Lines that begin with `#` are
/// comments.
///
/// # Errors
/// `Io`; `Syntax` for a line of another form; `Argument` for a name that the graph lacks or that stands there twice, and for bytes of
/// an op with more than one output; `TooLarge` for sums beyond [`shardgraph_costgraph::MAX_TOTAL`]. All name file and line.
pub fn with_costs(graph: &Graph, path: &Path, factor: f64) -> Result<(Graph, Measured), Error> {
    let content = source::read_file(path, MAX_BYTES)?;
    apply(graph, &path.display().to_string(), &content, factor)
}

fn apply(
    graph: &Graph,
    file: &str,
    content: &[u8],
    factor: f64,
) -> Result<(Graph, Measured), Error> {
    let ids = (0..graph.n_ops() as u32).map(|op| (graph.op_name(op), op));
    let mut costs = Costs {
        ids: ids.collect(),
        has_row: vec![0; graph.n_ops()],
        cost_ns: vec![None; graph.n_ops()],
        tensor_bytes: vec![None; graph.n_tensors()],
        graph,
        found: Measured::default(),
    };
    let mut n_columns = None;
    for (line, number) in content.split(|&byte| byte == b'\n').zip(1..) {
        let at = |error: Error| error.or_at(file, number, 0);
        let line = std::str::from_utf8(line).map_err(|_| at(syntax("expected text in UTF-8")))?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match n_columns {
            None => n_columns = Some(columns(line).map_err(at)?),
            Some(n) => costs.row(line, n, number).map_err(at)?,
        }
    }
    if n_columns.is_none() {
        return Err(syntax(&format!("expected {HEADER}")).or_at(file, 0, 0));
    }
    let scaled = graph.clone().with_costs_times(factor);
    let measured = scaled.and_then(|graph| graph.with_amounts(&costs.cost_ns, &costs.tensor_bytes));
    let graph = measured.map_err(|error| error.or_at(file, 0, 0))?;
    Ok((graph, costs.found))
}

/// How many columns a header has.
fn columns(line: &str) -> Result<usize, Error> {
    let header: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    match header.as_str() {
        HEADER => Ok(3),
        "op,seconds" => Ok(2),
        _ => Err(syntax(&format!("expected {HEADER}, found `{line}`"))),
    }
}

struct Costs<'g> {
    graph: &'g Graph,
    ids: BTreeMap<&'g str, u32>,
    /// By op: the line that has its costs, or 0.
    has_row: Vec<u64>,
    cost_ns: Vec<Option<u64>>,
    tensor_bytes: Vec<Option<u64>>,
    found: Measured,
}

impl Costs<'_> {
    fn row(&mut self, line: &str, n_columns: usize, number: u64) -> Result<(), Error> {
        // Names may have commas in them, numbers have none.
        let mut fields: Vec<&str> = line.rsplitn(n_columns, ',').map(str::trim).collect();
        fields.reverse();
        let &[name, seconds, ref bytes @ ..] = &fields[..] else {
            return Err(syntax(&format!("expected {n_columns} columns")));
        };
        let name = name
            .strip_prefix('"')
            .and_then(|name| name.strip_suffix('"'))
            .unwrap_or(name);
        let Some(&op) = self.ids.get(name) else {
            return Err(argument(format!("the graph has no op `{name}`")));
        };
        let before = std::mem::replace(&mut self.has_row[op as usize], number);
        if before != 0 {
            return Err(argument(format!(
                "`{name}` has costs on line {before} already"
            )));
        }
        if !seconds.is_empty() {
            self.set_time(op, seconds)?;
        }
        match bytes.first() {
            Some(bytes) if !bytes.is_empty() => self.set_bytes(op, bytes),
            _ => Ok(()),
        }
    }

    fn set_time(&mut self, op: u32, text: &str) -> Result<(), Error> {
        let seconds: f64 = text.parse().unwrap_or(f64::NAN);
        // NaN is in no range.
        if !(0.0..=1e9).contains(&seconds) {
            return Err(syntax(&format!(
                "expected seconds from 0 to 10^9, found `{text}`"
            )));
        }
        self.cost_ns[op as usize] = Some((seconds * 1e9).round() as u64);
        self.found.times += 1;
        Ok(())
    }

    fn set_bytes(&mut self, op: u32, text: &str) -> Result<(), Error> {
        let Ok(bytes) = text.parse() else {
            return Err(syntax(&format!("expected whole bytes, found `{text}`")));
        };
        let outputs = self
            .graph
            .outputs(op)
            .filter(|&t| !self.graph.is_control(t));
        let &[output] = &outputs.collect::<Vec<u32>>()[..] else {
            let name = self.graph.op_name(op);
            return Err(argument(format!(
                "`{name}` does not have one output: leave its output_bytes empty"
            )));
        };
        self.tensor_bytes[output as usize] = Some(bytes);
        self.found.sizes += 1;
        Ok(())
    }
}

fn syntax(message: &str) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_costgraph::{GraphBuilder, OpSpec, TensorSpec};

    fn graph() -> Graph {
        let mut builder = GraphBuilder::new("three");
        let ops = ["a", "b, c", "d"].map(|name| builder.op(OpSpec::new(name, 100)));
        builder.tensor(TensorSpec::new(ops[0], 8, &[ops[1]]));
        builder.tensor(TensorSpec::new(ops[1], 8, &[ops[2]]));
        builder.tensor(TensorSpec::new(ops[1], 16, &[ops[2]]));
        builder.build().unwrap()
    }

    fn read(text: &str) -> Result<(Graph, Measured), String> {
        apply(&graph(), "costs.csv", text.as_bytes(), 0.5).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_file_has_is_taken_and_the_rest_is_scaled() {
        let text = "op, seconds, output_bytes\n# measured\na,,24\r\n\"b, c\",2.5e-6,\n";
        let (graph, found) = read(text).unwrap();
        let costs: Vec<u64> = (0..3).map(|op| graph.cost_ns(0, op)).collect();
        assert_eq!(costs, [50, 2500, 50]);
        assert_eq!((graph.tensor_bytes(0), graph.tensor_bytes(1)), (24, 8));
        assert_eq!(found, Measured { times: 1, sizes: 1 });
        let (graph, _) = read("op,seconds\nb, c,1\n").unwrap();
        assert_eq!(graph.cost_ns(0, 1), 1_000_000_000);
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, expected) in [
            ("", "expected op,seconds"),
            ("name,time\n", "costs.csv:1: expected op,seconds"),
            (
                "op,seconds\n\ne,1\n",
                "costs.csv:3: the graph has no op `e`",
            ),
            (
                "op,seconds\na,1\na,1\n",
                "costs.csv:3: `a` has costs on line 2",
            ),
            ("op,seconds\na,-1\n", "expected seconds"),
            ("op,seconds\na,nan\n", "expected seconds"),
            ("op,seconds\na\n", "expected 2 columns"),
            ("op,seconds,output_bytes\na,1,x\n", "expected whole bytes"),
            (
                "op,seconds,output_bytes\nb, c,1,4\n",
                "leave its output_bytes empty",
            ),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
