//! What a member of a peer group cannot know: whether a client of another member holds a lock.

use std::fmt;

use baton_client::Client;
use baton_types::views::Group;

use crate::output::Failure;
use crate::service_args::no_server;

/// The answering server is a member of a peer group, and no client of this member holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    member: u64,
    others: Vec<u64>,
}

impl Elsewhere {
    /// Asks the server. None: it is no member of a peer group, so it knows all holders.
    pub async fn of(client: &Client) -> Result<Option<Elsewhere>, Failure> {
        let status = client.status().await.map_err(no_server)?;
        Ok(status.group.as_ref().map(Elsewhere::from))
    }
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
