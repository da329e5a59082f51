//! Why a lock that no client of the answering server holds may not be free: a member of a peer group does not know the
//! clients of the other members, and a cluster that began anew grants nothing for a while.

use std::fmt;

use baton_client::Client;
use baton_types::views::Group;

use crate::output::Failure;
use crate::service_args::no_server;
use crate::view::duration;

/// What the answering server says of a lock that none of its clients holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheld {
    Free,
    /// Nothing is granted for this long.
    Closed {
        left_ms: u64,
    },
    Elsewhere(Elsewhere),
}

impl Unheld {
    /// Asks the server.
    pub async fn of(client: &Client) -> Result<Unheld, Failure> {
        let status = client.status().await.map_err(no_server)?;
        Ok(match (&status.group, status.closed_ms) {
            (Some(group), _) => Unheld::Elsewhere(Elsewhere::from(group)),
            (None, 0) => Unheld::Free,
            (None, left_ms) => Unheld::Closed { left_ms },
        })
    }
}

/// For the end of a sentence about the lock.
impl fmt::Display for Unheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unheld::Free => f.write_str("free"),
            Unheld::Closed { left_ms } => f.write_str(&closed(*left_ms)),
            Unheld::Elsewhere(elsewhere) => elsewhere.fmt(f),
        }
    }
}

/// Why nobody gets a lock that nobody holds.
pub fn closed(left_ms: u64) -> String {
    let left = duration(left_ms);
    format!("nothing is granted for another {left}, because the cluster began anew and leases of before may still run")
}

/// The answering server is a member of a peer group, and no client of this member holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    member: u64,
    others: Vec<u64>,
}

impl From<&Group> for Elsewhere {
    fn from(group: &Group) -> Self {
        Elsewhere { member: group.member, others: group.peers.iter().map(|peer| peer.id).collect() }
    }
}

/// For the end of a sentence about the lock.
impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Elsewhere { member, others } = self;
        let other = match &others[..] {
            [first, rest @ ..] if rest.len() < 4 => {
                rest.iter().fold(format!("member {first}"), |ids, id| format!("{ids} or {id}"))
            }
            _ => "another member".to_owned(),
        };
        write!(f, "not held by a client of member {member}; a client of {other} may hold it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_members_are_named_if_they_are_few() {
        let text = |others: &[u64]| Elsewhere { member: 1, others: others.to_vec() }.to_string();
        assert_eq!(text(&[0, 2]), "not held by a client of member 1; a client of member 0 or 2 may hold it");
        assert_eq!(text(&[0]), "not held by a client of member 1; a client of member 0 may hold it");
        assert_eq!(text(&[0, 2, 3, 4, 5]), "not held by a client of member 1; a client of another member may hold it");
    }
}
