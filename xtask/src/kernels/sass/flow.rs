//! Control flow of machine code: basic blocks, and the natural loops of the graph of blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Instruction;

/// What is known of a function's control flow.
pub(super) struct ControlFlow {
    /// Of each instruction: a warp whose lanes stay together may come to it.
    pub(super) is_reached: Vec<bool>,
    pub(super) loops: Vec<Loop>,
}

/// A natural loop: a header and all from where a branch back to it is reached without it.
#[derive(Debug, PartialEq)]
pub(super) struct Loop {
    /// Indices of its instructions.
    pub(super) instructions: Vec<usize>,
    /// It contains no other loop.
    pub(super) is_innermost: bool,
}

/// The address that a branch or call names.
pub(super) fn target(instruction: &Instruction<'_>) -> Option<u32> {
    let word = instruction.operands.rsplit([' ', ',']).next()?;
    u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// The natural loops of a function, and what is reached.
///
/// # Source
/// Aho, Lam, Sethi, Ullman, "Compilers" (2007), section 9.6: an edge to a block that dominates its
/// start is a back edge; here a block dominates another that cannot be reached without it.
pub(super) fn analyse(code: &[Instruction<'_>]) -> ControlFlow {
    let graph = Graph::new(code);
    let reached = graph.reached(None);
    let bodies = graph.loop_bodies(&reached);
    let headers: Vec<usize> = bodies.keys().copied().collect();
    let loops = bodies.into_iter().map(|(header, body)| Loop {
        is_innermost: headers.iter().all(|h| *h == header || !body.contains(h)),
        instructions: body
            .into_iter()
            .flat_map(|b| graph.blocks[b].clone())
            .collect(),
    });
    let loops = loops.collect();
    let blocks = graph.blocks.iter().zip(reached);
    let is_reached = blocks.flat_map(|(block, is_reached)| block.clone().map(move |_| is_reached));
    ControlFlow {
        is_reached: is_reached.collect(),
        loops,
    }
}

/// Basic blocks as ranges of instructions, the first being the entry, and the edges between them.
struct Graph {
    blocks: Vec<Range<usize>>,
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    /// The entry, and the cases of indirect branches.
    roots: Vec<usize>,
}

impl Graph {
    fn new(code: &[Instruction<'_>]) -> Graph {
        let index = |address: u32| code.binary_search_by_key(&address, |i| i.address).ok();
        let flows: Vec<Flow> = code.iter().map(Flow::new).collect();
        let targets: Vec<_> = flows.iter().map(|f| f.target.and_then(index)).collect();
        let mut starts = BTreeSet::from([0]);
        starts.extend(targets.iter().flatten());
        starts.extend(
            (0..code.len())
                .filter(|&i| flows[i].ends_block)
                .map(|i| i + 1),
        );
        starts.remove(&code.len());
        let starts: Vec<usize> = starts.into_iter().collect();
        let ends = starts.iter().skip(1).copied().chain([code.len()]);
        let blocks: Vec<_> = starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| start..end)
            .collect();
        let mut graph = Graph {
            successors: vec![Vec::new(); blocks.len()],
            predecessors: vec![Vec::new(); blocks.len()],
            roots: (0..blocks.len().min(1)).collect(),
            blocks,
        };
        let block = |idx: usize| starts.binary_search(&targets[idx]?).ok();
        for from in 0..graph.blocks.len() {
            let range = graph.blocks[from].clone();
            let jumps = range.clone().filter(|&i| flows[i].is_jump);
            for to in jumps.filter_map(block) {
                graph.connect(from, to);
            }
            if flows[range.clone()].last().is_some_and(|f| f.continues) {
                graph.connect(from, from + 1);
            }
        }
        if flows.iter().any(|f| f.is_indirect) {
            let diverged = (0..code.len()).filter(|&i| flows[i].is_divergence);
            let diverged: Vec<usize> = diverged.filter_map(block).collect();
            while let Some(case) = graph.first_unreached(&diverged) {
                graph.roots.push(case);
            }
        }
        graph
    }

    /// Of each header the blocks of its loop.
    fn loop_bodies(&self, reached: &[bool]) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut bodies: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for header in (0..self.blocks.len()).filter(|&block| reached[block]) {
            let without = self.reached(Some(header));
            let is_latch = |block: &&usize| reached[**block] && !without[**block];
            for &latch in self.predecessors[header].iter().filter(is_latch) {
                let body = self.body(header, latch);
                let body = body.into_iter().filter(|&block| reached[block]);
                bodies.entry(header).or_default().extend(body);
            }
        }
        bodies
    }

    fn connect(&mut self, from: usize, to: usize) {
        if to < self.blocks.len() {
            self.successors[from].push(to);
            self.predecessors[to].push(from);
        }
    }

    /// The blocks that are reached from a root without passing through `avoided`.
    fn reached(&self, avoided: Option<usize>) -> Vec<bool> {
        self.reached_from(self.roots.clone(), avoided)
    }

    fn reached_from(&self, mut open: Vec<usize>, avoided: Option<usize>) -> Vec<bool> {
        let mut reached = vec![false; self.blocks.len()];
        while let Some(block) = open.pop() {
            if Some(block) != avoided && !std::mem::replace(&mut reached[block], true) {
                open.extend(&self.successors[block]);
            }
        }
        reached
    }

    /// The first block that is reached neither from a root nor from `others`.
    fn first_unreached(&self, others: &[usize]) -> Option<usize> {
        let reached = self.reached_from([&self.roots, others].concat(), None);
        reached.iter().position(|is_reached| !is_reached)
    }

    /// The header, the latch, and what reaches the latch without the header.
    fn body(&self, header: usize, latch: usize) -> BTreeSet<usize> {
        let mut body = BTreeSet::from([header]);
        let mut open = vec![latch];
        while let Some(block) = open.pop() {
            if body.insert(block) {
                open.extend(&self.predecessors[block]);
            }
        }
        body
    }
}

/// Where execution goes after an instruction.
struct Flow {
    target: Option<u32>,
    /// It may go to the target. A call may, and is not followed back: sm_80 leaves loops by calls.
    is_jump: bool,
    is_indirect: bool,
    /// Only warps whose lanes have parted take it.
    is_divergence: bool,
    /// The next instruction may follow.
    continues: bool,
    ends_block: bool,
}

impl Flow {
    fn new(instruction: &Instruction<'_>) -> Flow {
        let stem = instruction.stem();
        let is_branch = matches!(stem, "BRA" | "JMP");
        let is_call = stem == "CALL";
        let is_indirect = matches!(stem, "BRX" | "BRXU" | "JMX");
        let is_divergence = is_branch && instruction.has_suffix("DIV");
        let leaves = is_indirect || matches!(stem, "EXIT" | "RET");
        // `BRA.U UP0, 0x80` is conditional by an operand.
        let has_condition = is_branch && instruction.operands.contains(',');
        let is_always = !instruction.is_predicated && !has_condition && !is_divergence;
        Flow {
            target: (is_branch || is_call)
                .then(|| target(instruction))
                .flatten(),
            is_jump: (is_branch && !is_divergence) || is_call,
            is_indirect,
            is_divergence,
            continues: !(is_always && (is_branch || leaves)),
            ends_block: is_branch || is_call || leaves,
        }
    }
}
