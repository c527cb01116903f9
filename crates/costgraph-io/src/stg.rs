//! The Standard Task Graph set: the number of tasks, then a line a task: number, processing time, number of predecessors, predecessors.
//!
//! `0` and the last number are a dummy first and last task without time, which the first line does not count. A unit of time is taken as
//! a nanosecond. Nothing is exchanged between tasks: each edge is a control dependency, which delays the later task and makes no
//! device wait. Lines after a `#` are comments.
//!
//! # Source
//! Tobita and Kasahara, "A standard task graph set for fair evaluation of multiprocessor scheduling algorithms", 2002.

use super::{Format, Imported, Report};
use shardgraph_costgraph::{Error, ErrorKind, GraphBuilder, OpSpec};

pub(crate) fn read(file: &str, graph_name: &str, content: &[u8]) -> Result<Imported, Error> {
    let mut builder = GraphBuilder::new(graph_name);
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut n_tasks = None;
    for (idx, line) in content.split(|&byte| byte == b'\n').enumerate() {
        let at = |error: Error| error.or_at(file, idx as u64 + 1, 0);
        let text = std::str::from_utf8(line).map_err(|_| at(syntax("expected text in UTF-8")))?;
        let text = text.split('#').next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let numbers = numbers.map_err(|_| at(syntax("expected whole numbers")))?;
        match (n_tasks, &numbers[..]) {
            (_, []) => (),
            (None, &[n]) => n_tasks = Some(n),
            (None, _) => return Err(at(syntax("expected the number of tasks alone"))),
            (Some(_), _) => task(&mut builder, &numbers, &mut edges).map_err(at)?,
        }
    }
    let expected = n_tasks.map(|n| n.saturating_add(2));
    if expected != Some(builder.n_ops() as u64) {
        let found = builder.n_ops();
        let message = match expected {
            None => "the file holds no graph".to_owned(),
            Some(expected) => {
                format!("{found} tasks: expected {expected}, of which two are dummies")
            }
        };
        return Err(syntax(&message).or_at(file, 0, 0));
    }
    for (before, after) in edges {
        builder.control(before, after);
    }
    Ok(Imported {
        graph: builder.build().map_err(|error| error.or_at(file, 0, 0))?,
        report: Report::new(Format::Stg),
    })
}

fn task(
    builder: &mut GraphBuilder,
    numbers: &[u64],
    edges: &mut Vec<(u32, u32)>,
) -> Result<(), Error> {
    let &[number, time, n_before, ref before @ ..] = numbers else {
        return Err(syntax(
            "expected a task's number, its time and the number of its predecessors",
        ));
    };
    let task = builder.n_ops() as u64;
    if number != task || n_before != before.len() as u64 {
        return Err(syntax(&format!(
            "expected task {task} with as many predecessors as it says, found task {number} with {} of {n_before}",
            before.len()
        )));
    }
    if let Some(late) = before.iter().find(|&&other| other >= task) {
        return Err(syntax(&format!(
            "task {task} has the predecessor {late}, which does not come before it"
        )));
    }
    edges.extend(before.iter().map(|&other| (other as u32, task as u32)));
    builder.op(OpSpec::new(format!("task {task}"), time));
    Ok(())
}

fn syntax(message: &str) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

#[cfg(test)]
mod tests {
    use crate::{Format, ReadOptions, read_bytes};

    fn read(text: &str) -> Result<shardgraph_costgraph::Graph, String> {
        let options = ReadOptions {
            format: Some(Format::Stg),
            ..ReadOptions::default()
        };
        let mut graphs =
            read_bytes("a.stg", text.as_bytes(), &options).map_err(|e| e.to_string())?;
        let first = graphs.next().ok_or("no graph")?;
        first
            .map(|imported| imported.graph)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn tasks_and_their_predecessors_are_read() {
        let text = " 2\n 0 0 0\n 1 7 1 0\n 2 9 1 0\n 3 0 2 1 2\n# comment\n";
        let graph = read(text).unwrap();
        assert_eq!(
            (graph.n_ops(), graph.n_tensors(), graph.n_uses()),
            (4, 3, 4)
        );
        assert_eq!((graph.cost_ns(0, 1), graph.cost_ns(0, 2)), (7, 9));
        assert_eq!(graph.consumers(0), [1, 2]);
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, expected) in [
            ("2\n0 0 0\n", "1 tasks: expected 4"),
            ("2 3\n", "a.stg:1: expected the number of tasks"),
            ("1\n0 0 0\n1 x 0\n", "a.stg:3: expected whole numbers"),
            ("1\n0 0 0\n1 5 2 0\n", "a.stg:3: expected task 1"),
            (
                "1\n0 0 0\n1 5 1 2\n2 0 1 1\n",
                "a.stg:3: task 1 has the predecessor 2",
            ),
            ("1\n0 0 0\n7 5 0\n", "found task 7"),
            ("", "no graph"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
