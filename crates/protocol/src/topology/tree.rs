//! Spanning trees with the root P0, for Raymond's algorithm.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use crate::ProcessId;
use crate::registry::{Params, SetupError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    n: usize,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// Filled level by level, with this many children each. Takes no memory, so a group may have a million processes.
    KAry(usize),
    /// The parent of each process. The root is its own parent.
    Parents(Vec<ProcessId>),
}

/// The subject of the errors below.
const EDGES: &str = "the edges of a tree";

impl Tree {
    /// The variants that [`Tree::from_variant`] knows.
    pub const VARIANTS: &[&str] = &["chain", "star", "binary", "k-ary", "edges"];

    /// Each process except the last has one child.
    pub fn chain(n: usize) -> Self {
        Tree::k_ary(n, 1)
    }

    /// Each process except P0 is a leaf.
    pub fn star(n: usize) -> Self {
        Tree::k_ary(n, n.max(2) - 1)
    }

    /// A balanced tree with `k` children each: the parent of i is (i - 1) / k. k = 0 counts as 1.
    pub fn k_ary(n: usize, k: usize) -> Self {
        Tree { n, shape: Shape::KAry(k.max(1)) }
    }

    /// An error if the edges are no tree over `n` processes.
    pub fn from_edges(n: usize, edges: &[(ProcessId, ProcessId)]) -> Result<Self, SetupError> {
        let mut neighbours = vec![Vec::new(); n];
        let mut sets = DisjointSets::new(n);
        for &(a, b) in edges {
            let refuse = |reason| Err(SetupError::Value { what: EDGES, value: format!("{a}-{b}"), reason });
            if let Some(process) = [a, b].into_iter().find(|&process| process >= n) {
                return refuse(format!("there is no P{process}; the processes are P0 to P{}", n - 1));
            }
            if a == b {
                return refuse(format!("it joins P{a} to itself; an edge joins two processes"));
            }
            if !sets.join(a, b) {
                return refuse("it closes a cycle, and a tree has none; leave it out".to_string());
            }
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        if let Some(alone) = (0..n).find(|&process| sets.find(process) != sets.find(0)) {
            let value = edges.iter().map(|(a, b)| format!("{a}-{b}")).collect::<Vec<_>>().join(",");
            let reason = format!("no path leads from P0 to P{alone}; {n} processes take {} edges", n - 1);
            return Err(SetupError::Value { what: EDGES, value, reason });
        }
        Ok(Tree { n, shape: Shape::Parents(parents(&neighbours)) })
    }

    /// The tree by the variant: `chain`, `star`, `binary` (the default), `k-ary:K` or `edges:0-1,0-2`.
    pub fn from_variant(params: &Params) -> Result<Self, SetupError> {
        let n = params.n;
        match params.one_of(Self::VARIANTS)? {
            Some("chain") => Ok(Tree::chain(n)),
            Some("star") => Ok(Tree::star(n)),
            Some("k-ary") => parse_arity(params.value("k-ary").unwrap_or_default()).map(|k| Tree::k_ary(n, k)),
            Some("edges") => Tree::from_edges(n, &parse_edges(params.value("edges").unwrap_or_default())?),
            _ => Ok(Tree::k_ary(n, 2)),
        }
    }

    /// The neighbour of `process` on the path to the root. The root is its own parent.
    pub fn parent(&self, process: ProcessId) -> ProcessId {
        match &self.shape {
            Shape::KAry(k) => process.saturating_sub(1) / k,
            Shape::Parents(parents) => parents[process],
        }
    }

    /// All edges (parent, child), in the order of the children.
    pub fn edges(&self) -> impl Iterator<Item = (ProcessId, ProcessId)> {
        (1..self.n).map(|process| (self.parent(process), process))
    }

    /// Number of edges between two processes.
    pub fn distance(&self, a: ProcessId, b: ProcessId) -> usize {
        let (path_a, path_b) = (self.path_from_root(a), self.path_from_root(b));
        let shared = path_a.iter().zip(&path_b).take_while(|(a, b)| a == b).count();
        path_a.len() + path_b.len() - 2 * shared
    }

    fn path_from_root(&self, process: ProcessId) -> Vec<ProcessId> {
        let mut path = vec![process];
        let mut last = process;
        while last != 0 {
            last = self.parent(last);
            path.push(last);
        }
        path.reverse();
        path
    }
}

fn parse_arity(text: &str) -> Result<usize, SetupError> {
    text.parse().ok().filter(|&k| k > 0).ok_or_else(|| SetupError::Value {
        what: "the number of children",
        value: text.to_string(),
        reason: "a k-ary tree has a whole number of them, at least 1, as in k-ary:3".to_string(),
    })
}

fn parse_edges(text: &str) -> Result<Vec<(ProcessId, ProcessId)>, SetupError> {
    let parse = |edge: &str| {
        let (a, b) = edge.split_once('-')?;
        Some((a.trim().parse().ok()?, b.trim().parse().ok()?))
    };
    let wrong = |edge: &str| SetupError::Value {
        what: EDGES,
        value: edge.to_string(),
        reason: "an edge is two process ids joined by a hyphen, as in edges:0-1,0-2".to_string(),
    };
    text.split(',').map(|edge| parse(edge).ok_or_else(|| wrong(edge))).collect()
}

/// The parent of each process, found by a walk from P0.
fn parents(neighbours: &[Vec<ProcessId>]) -> Vec<ProcessId> {
    let mut parents = vec![0; neighbours.len()];
    let mut walk = vec![0];
    while let Some(process) = walk.pop() {
        let parent = parents[process];
        for &child in neighbours[process].iter().filter(|&&neighbour| neighbour != parent) {
            parents[child] = process;
            walk.push(child);
        }
    }
    parents
}

/// Groups of processes that the edges so far connect (union-find with path halving).
struct DisjointSets(Vec<ProcessId>);

impl DisjointSets {
    fn new(n: usize) -> Self {
        DisjointSets((0..n).collect())
    }

    fn find(&mut self, process: ProcessId) -> ProcessId {
        let mut process = process;
        while self.0[process] != process {
            self.0[process] = self.0[self.0[process]];
            process = self.0[process];
        }
        process
    }

    /// Returns whether the two groups were separate.
    fn join(&mut self, a: ProcessId, b: ProcessId) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a] = b;
        a != b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(n: usize, variant: &str) -> Result<Tree, SetupError> {
        Tree::from_variant(&Params { variant: Some(variant.to_string()), ..Params::new(n, 1) })
    }

    fn edges(n: usize, variant: &str) -> Vec<(ProcessId, ProcessId)> {
        tree(n, variant).unwrap().edges().collect()
    }

    #[test]
    fn every_shape_has_its_edges() {
        assert_eq!(edges(4, "chain"), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(edges(4, "star"), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(edges(6, "binary"), [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)]);
        assert_eq!(edges(6, "k-ary:3"), [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]);
        assert_eq!(edges(5, "edges:3-4,4-1,0-3,2-4"), [(4, 1), (4, 2), (0, 3), (3, 4)]);
        assert_eq!(Tree::from_variant(&Params::new(6, 1)), tree(6, "binary"));
        assert_eq!(edges(2, "star"), edges(2, "chain"));
    }

    #[test]
    fn distances_are_the_lengths_of_paths() {
        let chain = Tree::chain(6);
        assert_eq!((chain.distance(1, 5), chain.distance(5, 1), chain.distance(3, 3)), (4, 4, 0));
        let binary = Tree::k_ary(7, 2);
        assert_eq!((binary.distance(3, 4), binary.distance(3, 6), binary.distance(0, 6)), (2, 4, 2));
    }

    #[test]
    fn what_is_no_tree_is_refused_with_the_reason() {
        let refusal = |n, variant: &str| tree(n, variant).unwrap_err().to_string();
        let head = "does not work as the edges of a tree:";
        assert_eq!(refusal(3, "edges:0-1,0-3"), format!("`0-3` {head} there is no P3; the processes are P0 to P2"));
        assert_eq!(
            refusal(3, "edges:0-1,2-2"),
            format!("`2-2` {head} it joins P2 to itself; an edge joins two processes")
        );
        for cycle in ["edges:0-1,1-2,2-0", "edges:0-1,1-2,1-0"] {
            let edge = &cycle[cycle.len() - 3..];
            assert_eq!(
                refusal(3, cycle),
                format!("`{edge}` {head} it closes a cycle, and a tree has none; leave it out")
            );
        }
        assert_eq!(
            refusal(4, "edges:0-1,2-3"),
            format!("`0-1,2-3` {head} no path leads from P0 to P2; 4 processes take 3 edges")
        );
        for (text, edge) in [("edges:0", "0"), ("edges:0-1,", ""), ("edges:0-x", "0-x"), ("edges:0--1", "0--1")] {
            assert_eq!(
                refusal(2, text),
                format!("`{edge}` {head} an edge is two process ids joined by a hyphen, as in edges:0-1,0-2")
            );
        }
        for k in ["0", "two", "-1"] {
            assert!(refusal(3, &format!("k-ary:{k}")).contains("a whole number of them, at least 1"), "{k}");
        }
        assert_eq!(refusal(3, "chain+star"), "`chain` and `star` exclude each other; ask for one of them");
    }
}
