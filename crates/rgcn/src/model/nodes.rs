//! The nodes that a layer reads or makes: all of them, or some with places of their own.

use std::ops::Range;

/// A set of nodes in ascending order; a node's place in it is its row in the layer's arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeSet {
    /// Each node, at the place of its own number.
    All(u32),
    /// These nodes.
    Some {
        /// Ascending.
        nodes: Vec<u32>,
    },
}

impl NodeSet {
    /// The nodes that are marked; all of them make [`NodeSet::All`].
    pub(crate) fn marked(is_member: &[bool]) -> NodeSet {
        if is_member.iter().all(|&is| is) {
            return NodeSet::All(is_member.len() as u32);
        }
        let nodes = (0u32..).zip(is_member).filter(|(_, is)| **is);
        NodeSet::Some {
            nodes: nodes.map(|(node, _)| node).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            NodeSet::All(n_nodes) => *n_nodes as usize,
            NodeSet::Some { nodes } => nodes.len(),
        }
    }

    /// The node at a place.
    pub(crate) fn node(&self, place: usize) -> u32 {
        match self {
            NodeSet::All(_) => place as u32,
            NodeSet::Some { nodes } => nodes[place],
        }
    }

    /// The place of a node of the set.
    pub(crate) fn place(&self, node: u32) -> Option<usize> {
        match self {
            NodeSet::All(n_nodes) => (node < *n_nodes).then_some(node as usize),
            NodeSet::Some { nodes } => nodes.binary_search(&node).ok(),
        }
    }

    /// The places of the set's nodes in a range of nodes.
    pub(crate) fn places(&self, nodes: &Range<u32>) -> Range<usize> {
        match self {
            NodeSet::All(_) => nodes.start as usize..nodes.end as usize,
            NodeSet::Some { nodes: members } => {
                let first_from = |node| members.partition_point(|&member| member < node);
                first_from(nodes.start)..first_from(nodes.end)
            }
        }
    }

    /// One flag a node: true for those of the set.
    pub(crate) fn marks(&self, n_nodes: u32) -> Vec<bool> {
        match self {
            NodeSet::All(_) => vec![true; n_nodes as usize],
            NodeSet::Some { nodes } => {
                let mut is_member = vec![false; n_nodes as usize];
                nodes
                    .iter()
                    .for_each(|&node| is_member[node as usize] = true);
                is_member
            }
        }
    }

    /// Place by node, [`NodeSet::NONE`] for nodes outside; for passes that look up many.
    pub(crate) fn table(&self, n_nodes: u32) -> Vec<u32> {
        match self {
            NodeSet::All(_) => (0..n_nodes).collect(),
            NodeSet::Some { nodes } => {
                let mut table = vec![NodeSet::NONE; n_nodes as usize];
                for (place, &node) in (0u32..).zip(nodes) {
                    table[node as usize] = place;
                }
                table
            }
        }
    }

    /// No place.
    pub(crate) const NONE: u32 = u32::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_nodes_agree() {
        let set = NodeSet::marked(&[false, true, false, true, true]);
        assert_eq!(
            (0..set.len()).map(|p| set.node(p)).collect::<Vec<_>>(),
            [1, 3, 4]
        );
        assert_eq!(
            (set.place(3), set.place(2), set.place(9)),
            (Some(1), None, None)
        );
        assert_eq!((set.places(&(0..2)), set.places(&(2..5))), (0..1, 1..3));
        assert_eq!(set.table(5), [NodeSet::NONE, 0, NodeSet::NONE, 1, 2]);
        assert_eq!(NodeSet::marked(&[true; 3]), NodeSet::All(3));
        assert_eq!(NodeSet::All(3).places(&(1..3)), 1..3);
    }
}
