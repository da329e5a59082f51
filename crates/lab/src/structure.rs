//! The shape in which a page draws a group: ring, tree, grid, plane, star or complete graph.

use baton_protocol::ProcessId;
use baton_protocol::registry::{About, Family, Group, Params};
use baton_protocol::topology::quorum::Construction;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Structure {
    pub shape: Shape,
    /// The processes in the order of the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Vec<ProcessId>>,
    /// Of a tree, or of a star.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<(ProcessId, ProcessId)>>,
    /// The voting set of each client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorums: Option<Vec<Vec<ProcessId>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    Ring,
    Tree,
    Grid,
    /// A projective plane.
    Plane,
    Complete,
    /// Clients around their coordinators.
    Star,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Grid {
    pub columns: usize,
}

impl Structure {
    pub fn of<P>(about: &About, params: &Params, group: &Group<P>) -> Self {
        let quorums = group.topology.quorums.clone();
        let mut structure = Structure { shape: Shape::Complete, ring: None, edges: None, quorums, grid: None };
        let clients = group.clients;
        if let Some(tree) = &group.topology.tree {
            structure.become_tree(tree.clone());
        } else if let Some(ring) = &group.topology.ring {
            (structure.shape, structure.ring) = (Shape::Ring, Some(ring.clone()));
        } else if structure.quorums.is_some() && votes_by_construction(about, params) {
            structure.become_quorums(params);
        } else if group.processes > clients && about.family != Family::Election {
            structure.shape = Shape::Star;
            let to_helpers = |client| (clients..group.processes).map(move |helper| (client, helper));
            structure.edges = Some((0..clients).flat_map(to_helpers).collect());
        }
        structure
    }

    fn become_tree(&mut self, edges: Vec<(ProcessId, ProcessId)>) {
        (self.shape, self.edges) = (Shape::Tree, Some(edges));
    }

    fn become_quorums(&mut self, params: &Params) {
        let n = params.n;
        match Construction::choose(params) {
            Ok(Construction::Plane) => self.shape = Shape::Plane,
            Ok(Construction::Grid | Construction::PaddedGrid) => {
                self.shape = Shape::Grid;
                let columns = (0..=n).find(|side| side * side >= n).unwrap_or(n);
                self.grid = Some(Grid { columns });
            }
            Ok(Construction::Tree) => self.become_tree((1..n).map(|child| ((child - 1) / 2, child)).collect()),
            Ok(Construction::Majority) | Err(_) => {}
        }
    }
}

/// Whether the voting sets are those of a construction: not if the user gave the sets, or uses other ones.
fn votes_by_construction(about: &About, params: &Params) -> bool {
    let other_sets = ["request", "inform", "central", "ricart-agrawala"];
    about.family == Family::Mutex && !other_sets.iter().any(|part| params.has(part))
}

#[cfg(test)]
mod tests {
    use baton_protocol::append::Append;
    use baton_protocol::detector::Detector;
    use baton_protocol::election::Election;
    use baton_protocol::mutex::Mutex;
    use baton_protocol::registry::{self, ALGORITHMS, Visitor};

    use super::*;

    struct Look(Params);

    impl Visitor for Look {
        type Output = Option<(Structure, usize)>;

        fn unsupported(self, _: &'static About) -> Self::Output {
            None
        }

        fn mutex<P: Mutex>(self, about: &'static About, group: Group<P>) -> Self::Output {
            Some((Structure::of(about, &self.0, &group), group.processes))
        }

        fn election<P: Election>(self, about: &'static About, group: Group<P>) -> Self::Output {
            Some((Structure::of(about, &self.0, &group), group.processes))
        }

        fn append<P: Append>(self, about: &'static About, group: Group<P>) -> Self::Output {
            Some((Structure::of(about, &self.0, &group), group.processes))
        }

        fn detector<D: Detector>(self, about: &'static About, group: Group<D>) -> Self::Output {
            Some((Structure::of(about, &self.0, &group), group.processes))
        }
    }

    fn structure(algorithm: &str, n: usize, variant: Option<&str>) -> Structure {
        let params = Params { variant: variant.map(Into::into), ..Params::new(n, 1) };
        registry::visit(algorithm, &params, Look(params.clone())).unwrap().unwrap().0
    }

    #[test]
    fn each_algorithm_has_its_shape() {
        let shape = |algorithm, n, variant| structure(algorithm, n, variant).shape;
        assert_eq!(shape("maekawa", 7, None), Shape::Plane);
        assert_eq!(shape("maekawa", 7, Some("majority")), Shape::Complete);
        assert_eq!(shape("maekawa", 7, Some("tree")), Shape::Tree);
        assert_eq!(shape("generalized", 7, None), Shape::Plane);
        assert_eq!(shape("generalized", 3, Some("central")), Shape::Star);
        assert_eq!(shape("lamport", 3, None), Shape::Complete);
        assert_eq!(shape("raymond", 5, None), Shape::Tree);
        assert_eq!(shape("central", 3, None), Shape::Star);
        assert_eq!(shape("heartbeat", 3, None), Shape::Complete);
        assert_eq!(shape("bully", 3, Some("witness")), Shape::Complete);
        let grid = structure("maekawa", 9, Some("grid"));
        assert_eq!((grid.shape, grid.grid), (Shape::Grid, Some(Grid { columns: 3 })));
        let tree = structure("maekawa", 3, Some("tree"));
        assert_eq!(tree.edges, Some(vec![(0, 1), (0, 2)]));
        assert_eq!(structure("voting", 3, None).edges.unwrap().len(), 3 * 3, "each client asks each coordinator");
        assert_eq!(structure("chang-roberts", 3, Some("descending")).ring, Some(vec![2, 1, 0]));
        assert_eq!(structure("chang-roberts", 3, Some("ring:1,0,2")).ring, Some(vec![1, 0, 2]));
        assert_eq!(structure("token-ring", 3, None).ring, Some(vec![0, 1, 2]));
    }

    #[test]
    fn a_structure_names_only_processes_that_exist() {
        for about in ALGORITHMS {
            for n in 2..=9 {
                let params = Params::new(n, 1);
                let Some((structure, processes)) = registry::visit(about.name, &params, Look(params.clone())).unwrap()
                else {
                    continue;
                };
                let edges = structure.edges.iter().flatten().flat_map(|(one, other)| [one, other]);
                let named =
                    edges.chain(structure.ring.iter().flatten()).chain(structure.quorums.iter().flatten().flatten());
                assert!(named.copied().all(|process| process < processes), "{} {n}: {structure:?}", about.name);
            }
        }
    }
}
