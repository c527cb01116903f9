//! A second opinion on plans: the written plan, trace and chart are read here, by the definitions of the paper's A.4 and by those of
//! JSON and XML, with no code of the program's.

use std::collections::BTreeMap;

use serde_json::Value;

/// An op of a plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op {
    pub(crate) op: u64,
    device: usize,
    start: u64,
    end: u64,
}

/// A transfer of a plan.
#[derive(Clone, Debug, PartialEq)]
struct Transfer {
    tensor: u64,
    from: usize,
    to: usize,
    start: u64,
    end: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Op(Op),
    Transfer(Transfer),
}

/// A written plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) runtime: u64,
    pub(crate) peak_bytes: u64,
    n_devices: usize,
    pub(crate) ops: Vec<Op>,
    steps: Vec<Step>,
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no count: {value}"))
}

impl Plan {
    pub(crate) fn read(text: &str) -> Plan {
        let plan: Value = serde_json::from_str(text).unwrap();
        assert_eq!(plan["schema_version"], 1);
        let step = |row: &Value| {
            let (start, end) = (number(&row["start_ns"]), number(&row["end_ns"]));
            match row.get("op") {
                Some(op) => Step::Op(Op {
                    op: number(op),
                    device: number(&row["device"]) as usize,
                    start,
                    end,
                }),
                None => Step::Transfer(Transfer {
                    tensor: number(&row["tensor"]),
                    from: number(&row["from"]) as usize,
                    to: number(&row["to"]) as usize,
                    start,
                    end,
                }),
            }
        };
        let steps: Vec<Step> = plan["steps"].as_array().unwrap().iter().map(step).collect();
        let op = |step: &Step| match step {
            Step::Op(op) => Some(op.clone()),
            Step::Transfer(_) => None,
        };
        let devices = plan["devices"].as_array().unwrap();
        let peaks = devices.iter().map(|device| number(&device["peak_bytes"]));
        assert_eq!(peaks.max(), Some(number(&plan["peak_bytes"])));
        Plan {
            runtime: number(&plan["runtime"]),
            peak_bytes: number(&plan["peak_bytes"]),
            n_devices: devices.len(),
            ops: steps.iter().filter_map(op).collect(),
            steps,
        }
    }

    /// Where an op runs.
    pub(crate) fn device_of(&self, op: u64) -> usize {
        let found = self.ops.iter().find(|found| found.op == op);
        found.unwrap().device
    }

    /// No device does two things at once, and the last one ends with the plan.
    pub(crate) fn check_lanes(&self, is_async: bool) {
        let mut lanes = vec![Vec::new(); self.n_devices];
        for step in &self.steps {
            match step {
                Step::Op(op) => lanes[op.device].push((op.start, op.end)),
                Step::Transfer(_) if is_async => {}
                Step::Transfer(sent) => {
                    assert_ne!(sent.from, sent.to);
                    lanes[sent.from].push((sent.start, sent.end));
                    lanes[sent.to].push((sent.start, sent.end));
                }
            }
        }
        lanes.iter_mut().for_each(|lane| check_lane(lane));
        let end = self.ops.iter().map(|op| op.end).max();
        assert_eq!(end, Some(self.runtime));
    }

    /// Against the graph that a line of the JSON format holds (without views): precedence, transfers, costs and memory.
    pub(crate) fn check_against(&self, line: &str) {
        let graph: Value = serde_json::from_str(line).unwrap();
        let graph = Graph::read(&graph);
        assert_eq!(self.ops.len(), graph.costs.len());
        let mut of_op: BTreeMap<u64, &Op> = BTreeMap::new();
        for op in &self.ops {
            assert_eq!(op.end - op.start, graph.costs[op.op as usize]);
            assert!(of_op.insert(op.op, op).is_none(), "op {} twice", op.op);
        }
        for (idx, tensor) in graph.tensors.iter().enumerate() {
            let producer = of_op[&tensor.producer];
            for consumer in &tensor.consumers {
                let consumer = of_op[consumer];
                let mut ready = producer.end;
                if consumer.device != producer.device && !tensor.is_control {
                    let sent = self.transfer(idx as u64, consumer.device);
                    assert_eq!(sent.from, producer.device);
                    assert!(sent.start >= producer.end);
                    ready = sent.end;
                }
                assert!(consumer.start >= ready, "tensor {idx}");
            }
        }
        assert_eq!(self.replayed_peak(&graph), self.peak_bytes);
    }

    /// The one transfer of a tensor to a device.
    fn transfer(&self, tensor: u64, to: usize) -> &Transfer {
        let is_it =
            |step: &&Step| matches!(step, Step::Transfer(t) if t.tensor == tensor && t.to == to);
        let mut found = self.steps.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(Step::Transfer(sent)), None) => sent,
            other => panic!("tensor {tensor} to {to}: {other:?}"),
        }
    }

    /// What is resident after each step, counted anew from all steps before and after it.
    fn replayed_peak(&self, graph: &Graph) -> u64 {
        let mut peak = 0;
        let mut resident = vec![BTreeMap::<u64, u64>::new(); self.n_devices];
        for (at, step) in self.steps.iter().enumerate() {
            let touched = match step {
                Step::Op(op) => {
                    for (idx, tensor) in graph.tensors.iter().enumerate() {
                        if tensor.producer == op.op {
                            resident[op.device].insert(idx as u64, tensor.bytes);
                        }
                    }
                    let in_use: u64 = resident[op.device].values().sum();
                    peak = peak.max(in_use + graph.internal[op.op as usize]);
                    vec![op.device]
                }
                Step::Transfer(sent) => {
                    let bytes = graph.tensors[sent.tensor as usize].bytes;
                    resident[sent.to].insert(sent.tensor, bytes);
                    peak = peak.max(resident[sent.to].values().sum());
                    vec![sent.from, sent.to]
                }
            };
            for device in touched {
                resident[device].retain(|tensor, _| self.is_used_after(at, *tensor, device, graph));
            }
        }
        assert!(resident.iter().all(BTreeMap::is_empty));
        peak
    }

    fn is_used_after(&self, at: usize, tensor: u64, device: usize, graph: &Graph) -> bool {
        self.steps[at + 1..].iter().any(|step| match step {
            Step::Op(op) => {
                op.device == device && graph.tensors[tensor as usize].consumers.contains(&op.op)
            }
            Step::Transfer(sent) => sent.tensor == tensor && sent.from == device,
        })
    }
}

struct Tensor {
    producer: u64,
    bytes: u64,
    consumers: Vec<u64>,
    is_control: bool,
}

/// A graph as its file has it.
struct Graph {
    costs: Vec<u64>,
    internal: Vec<u64>,
    tensors: Vec<Tensor>,
}

impl Graph {
    fn read(line: &Value) -> Graph {
        let ops = line["ops"].as_array().unwrap();
        let control: Vec<u64> = match &line["control"] {
            Value::Array(control) => control.iter().map(number).collect(),
            _ => Vec::new(),
        };
        let tensors = line["tensors"].as_array().unwrap();
        let tensor = |(idx, row): (usize, &Value)| Tensor {
            producer: number(&row[0]),
            bytes: number(&row[1]),
            consumers: row[3].as_array().unwrap().iter().map(number).collect(),
            is_control: control.contains(&(idx as u64)),
        };
        Graph {
            costs: ops.iter().map(|op| number(&op[2])).collect(),
            internal: ops.iter().map(|op| number(&op[4])).collect(),
            tensors: tensors.iter().enumerate().map(tensor).collect(),
        }
    }
}

fn check_lane(lane: &mut [(u64, u64)]) {
    lane.sort_unstable();
    for pair in lane.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
}

/// Nanoseconds of a time that is written in microseconds.
fn nanoseconds(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().unwrap() * 1000.0).round() as u64
}

/// One lane for each device, the plan's ops in it one after the other, and a counter of memory whose maximum is the plan's peak.
pub(crate) fn check_trace(text: &str, plan: &Plan, is_async: bool) {
    let trace: Value = serde_json::from_str(text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let names = lane_names(events, plan.n_devices, is_async);
    let mut lanes: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut ops = Vec::new();
    for event in of("X") {
        let (lane, start) = (number(&event["tid"]), nanoseconds(event, "ts"));
        let end = start + nanoseconds(event, "dur");
        assert!(names.contains_key(&lane));
        lanes.entry(lane).or_default().push((start, end));
        if event["cat"] == "op" {
            let device = lane as usize;
            let op = number(&event["args"]["op"]);
            ops.push(Op {
                op,
                device,
                start,
                end,
            });
        }
    }
    lanes.values_mut().for_each(|lane| check_lane(lane));
    let sorted = |mut ops: Vec<Op>| {
        ops.sort_by_key(|op| op.op);
        ops
    };
    assert_eq!(sorted(ops), sorted(plan.ops.clone()));
    let counters = of("C").map(|event| number(&event["args"]["bytes"]));
    assert_eq!(counters.max(), Some(plan.peak_bytes));
    assert_eq!(of("s").count(), of("f").count());
}

/// The names of a trace's lanes: one for each device, and with asynchronous transfers one for each link.
fn lane_names(events: &[Value], n_devices: usize, is_async: bool) -> BTreeMap<u64, &str> {
    let mut names = BTreeMap::new();
    for event in events.iter().filter(|event| event["name"] == "thread_name") {
        let name = event["args"]["name"].as_str().unwrap();
        assert!(names.insert(number(&event["tid"]), name).is_none());
    }
    let n_links = if is_async {
        n_devices * (n_devices - 1)
    } else {
        0
    };
    assert_eq!(names.len(), n_devices + n_links);
    for device in 0..n_devices {
        assert_eq!(names[&(device as u64)], format!("device {device}"));
    }
    names
}

/// Well-formed XML with a box for each op that takes time.
pub(crate) fn check_svg(text: &str, plan: &Plan) {
    let n_timed = plan.ops.iter().filter(|op| op.start < op.end).count();
    assert_eq!(text.matches("class=\"op\"").count(), n_timed);
    assert_eq!(elements(text).unwrap()[0], "svg");
}

/// The names of an XML document's elements in order; the reason if it is not well-formed (of what a chart may hold: elements,
/// attributes, text and the five entities).
pub(crate) fn elements(text: &str) -> Result<Vec<String>, String> {
    let (mut open, mut names) = (Vec::new(), Vec::new());
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let (before, after) = rest.split_once('<').unwrap_or((rest, ""));
        check_text(before)?;
        if open.is_empty() && !before.trim().is_empty() || (open.is_empty() && !names.is_empty()) {
            return Err(format!("outside of the root: {before}<{after:.20}"));
        }
        let (tag, next) = after.split_once('>').ok_or("a tag does not end")?;
        rest = next;
        if let Some(name) = tag.strip_prefix('/') {
            let opened: Option<String> = open.pop();
            if opened.as_deref() != Some(name) {
                return Err(format!("</{name}> ends {opened:?}"));
            }
            continue;
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("<{tag}>"));
        }
        check_attributes(attributes)?;
        names.push(name.to_owned());
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    match open.is_empty() {
        true => Ok(names),
        false => Err(format!("{open:?} do not end")),
    }
}

fn check_attributes(mut attributes: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    while !attributes.trim().is_empty() {
        let wrong = || format!("attributes {attributes}");
        let (name, rest) = attributes
            .trim_start()
            .split_once("=\"")
            .ok_or_else(wrong)?;
        let (value, rest) = rest.split_once('"').ok_or_else(wrong)?;
        if seen.contains(&name) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(wrong());
        }
        seen.push(name);
        check_text(value)?;
        attributes = rest;
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('&') {
        let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
        if !entities.iter().any(|entity| text[at..].starts_with(entity)) {
            return Err(format!("no entity: {text}"));
        }
    }
    let is_bad = |c: char| (c < ' ' && !"\n\r\t".contains(c)) || c == '\u{fffe}' || c == '\u{ffff}';
    match text.contains(is_bad) || text.contains('>') {
        true => Err(format!("a character that XML has no place for: {text:?}")),
        false => Ok(()),
    }
}

#[test]
fn the_reader_of_xml_knows_good_from_bad() {
    assert_eq!(
        elements("<a b=\"1\"><c/>x &lt; y</a>\n").unwrap(),
        ["a", "c"]
    );
    for bad in [
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a b=1/>",
        "<a b=\"1\" b=\"2\"/>",
        "<a>&nbsp;</a>",
        "<a>\u{1}</a>",
        "<a>\u{ffff}</a>",
        "text",
        "<a></a>text",
    ] {
        assert!(elements(bad).is_err(), "{bad}");
    }
}
