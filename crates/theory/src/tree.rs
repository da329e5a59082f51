//! Distances in a tree.

/// A tree over the processes 0..n, with root 0.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The parent of each process. The parent of 0 is 0.
    parent: Vec<usize>,
    depth: Vec<usize>,
    /// All processes by depth, from the root outwards.
    order: Vec<usize>,
}

impl Tree {
    /// None if the edges do not form a tree.
    pub fn from_edges(n: usize, edges: &[(usize, usize)]) -> Option<Self> {
        if n == 0 || edges.len() != n - 1 || edges.iter().any(|&(a, b)| a >= n || b >= n) {
            return None;
        }
        let mut neighbours = vec![Vec::new(); n];
        for &(a, b) in edges {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let (mut parent, mut depth) = (vec![usize::MAX; n], vec![0; n]);
        let mut order = vec![0];
        parent[0] = 0;
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for &neighbour in &neighbours[node] {
                if parent[neighbour] == usize::MAX {
                    parent[neighbour] = node;
                    depth[neighbour] = depth[node] + 1;
                    order.push(neighbour);
                }
            }
        }
        (order.len() == n).then_some(Tree { parent, depth, order })
    }

    /// 0 - 1 - 2 - ...
    pub fn chain(n: usize) -> Option<Self> {
        Self::k_ary(n, 1)
    }

    /// Every other process is a neighbour of 0.
    pub fn star(n: usize) -> Option<Self> {
        let edges: Vec<_> = (1..n).map(|leaf| (0, leaf)).collect();
        Self::from_edges(n, &edges)
    }

    /// Filled level by level, with k children for each process.
    pub fn k_ary(n: usize, k: usize) -> Option<Self> {
        let edges: Vec<_> = (1..n).map(|child| ((child - 1).checked_div(k).unwrap_or(0), child)).collect();
        Self::from_edges(n, &edges)
    }

    /// The number of edges between two processes.
    pub fn distance(&self, mut a: usize, mut b: usize) -> usize {
        let mut edges = 0;
        while a != b {
            if self.depth[a] < self.depth[b] {
                (a, b) = (b, a);
            }
            a = self.parent[a];
            edges += 1;
        }
        edges
    }

    /// The mean distance from each process to the next one in order of ids, which has the next turn.
    pub fn mean_distance_in_turns(&self) -> f64 {
        let n = self.parent.len();
        let sum: usize = (0..n).map(|process| self.distance(process, (process + 1) % n)).sum();
        sum as f64 / n as f64
    }

    /// The mean distance between two different processes. An edge that separates s processes from the other n - s lies
    /// on s(n - s) paths.
    pub fn mean_distance(&self) -> f64 {
        let n = self.parent.len();
        let mut size = vec![1; n];
        let mut sum = 0.0;
        for &node in self.order.iter().skip(1).rev() {
            let cut_off: usize = size[node];
            size[self.parent[node]] += cut_off;
            sum += cut_off as f64 * (n - cut_off) as f64;
        }
        2.0 * sum / (n as f64 * (n as f64 - 1.0))
    }

    /// The longest distance. The longest path turns at some process, where two of its longest downward paths meet.
    pub fn diameter(&self) -> usize {
        let mut height = vec![0; self.parent.len()];
        let mut longest = 0;
        for &node in self.order.iter().skip(1).rev() {
            let (up, parent) = (height[node] + 1, self.parent[node]);
            longest = longest.max(height[parent] + up);
            height[parent] = height[parent].max(up);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn chains_and_stars_have_closed_forms() {
        for n in [2, 3, 5, 10, 101] {
            let (chain, star) = (Tree::chain(n).unwrap(), Tree::star(n).unwrap());
            let n = n as f64;
            assert!(close(2.0 * chain.mean_distance(), 2.0 * (n + 1.0) / 3.0));
            assert!(close(2.0 * star.mean_distance(), 4.0 * (n - 1.0) / n));
            assert_eq!(chain.diameter() as f64, n - 1.0);
            // n - 1 steps of length 1 along the chain, then n - 1 edges back to the start.
            assert!(close(chain.mean_distance_in_turns(), 2.0 * (n - 1.0) / n));
        }
        assert_eq!(Tree::star(2).unwrap().diameter(), 1);
        assert_eq!(Tree::star(9).unwrap().diameter(), 2);
    }

    #[test]
    fn cutting_edges_gives_the_same_mean_as_going_all_ways() {
        let tree = Tree::k_ary(23, 3).unwrap();
        let pairs = (0..23).flat_map(|a| (0..23).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let distances: Vec<usize> = pairs.map(|(a, b)| tree.distance(a, b)).collect();
        let mean = distances.iter().sum::<usize>() as f64 / distances.len() as f64;
        assert!(close(tree.mean_distance(), mean));
        assert_eq!(tree.diameter(), *distances.iter().max().unwrap());
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        assert!(Tree::from_edges(3, &[(0, 1)]).is_none(), "2 is not reached");
        assert!(Tree::from_edges(3, &[(0, 1), (0, 1)]).is_none(), "nor here");
        assert!(Tree::from_edges(3, &[(0, 1), (1, 3)]).is_none(), "there is no 3");
        assert!(Tree::from_edges(4, &[(1, 2), (2, 3), (3, 1)]).is_none(), "a cycle");
        assert!(Tree::from_edges(0, &[]).is_none());
    }
}
