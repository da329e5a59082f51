//! The cluster that a client talks to. The client never goes on with a server of another cluster: there, another client
//! may hold the same lock. Pure.

use baton_types::cluster_id::ClusterId;

/// A server must belong to this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub cluster: ClusterId,
    pub by: By,
}

/// Who says to which cluster a server must belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    User,
    /// The server at this address has opened a session.
    Session(String),
    /// The follower at this address has named the leader, which has the other address. It may carry the stream to it.
    Follower {
        follower: String,
        leader: String,
    },
}

impl Pin {
    /// Checks what the server at `address` says of itself. An older server does not name its cluster; it is refused only
    /// if the user has named one. The error is a sentence.
    pub fn check(&self, address: &str, says: Option<ClusterId>) -> Result<(), String> {
        let address = if let By::Follower { leader, .. } = &self.by { leader } else { address };
        let belongs = match says {
            Some(cluster) if cluster == self.cluster => return Ok(()),
            None if self.by != By::User => return Ok(()),
            Some(other) => format!("{address} belongs to cluster {other}"),
            None => format!("{address} is an older server, which does not say to which cluster it belongs"),
        };
        let cluster = self.cluster;
        Err(match &self.by {
            By::User => format!("{belongs}, but this client must talk to cluster {cluster}"),
            By::Session(first) => {
                format!("{belongs}, but this client has talked to cluster {cluster}, at {first}, and stays there")
            }
            By::Follower { follower, .. } => {
                format!("{belongs}, but {follower} has named it as the leader of cluster {cluster}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: u64) -> Option<ClusterId> {
        ClusterId::new(id)
    }

    fn pin(by: By) -> Pin {
        Pin { cluster: id(0xa).unwrap(), by }
    }

    #[test]
    fn a_server_of_another_cluster_is_refused_with_both_ids_and_both_addresses() {
        let by_session = pin(By::Session("a:1".to_owned()));
        assert_eq!(by_session.check("b:2", id(0xa)), Ok(()));
        let expected = "b:2 belongs to cluster 000000000000000b, but this client has talked to cluster \
                        000000000000000a, at a:1, and stays there";
        assert_eq!(by_session.check("b:2", id(0xb)).unwrap_err(), expected);
        let by_follower = pin(By::Follower { follower: "a:1".to_owned(), leader: "b:2".to_owned() });
        let expected = "b:2 belongs to cluster 000000000000000b, but a:1 has named it as the leader of cluster \
                        000000000000000a";
        assert_eq!(by_follower.check("b:2", id(0xb)).unwrap_err(), expected);
        assert_eq!(by_follower.check("a:1", id(0xb)).unwrap_err(), expected, "the follower carries the stream");
        let expected = "b:2 belongs to cluster 000000000000000b, but this client must talk to cluster 000000000000000a";
        assert_eq!(pin(By::User).check("b:2", id(0xb)).unwrap_err(), expected);
    }

    #[test]
    fn an_older_server_is_refused_only_if_the_user_has_named_a_cluster() {
        assert_eq!(pin(By::Session("a:1".to_owned())).check("b:2", None), Ok(()));
        assert_eq!(
            pin(By::Follower { follower: "a:1".to_owned(), leader: "b:2".to_owned() }).check("b:2", None),
            Ok(())
        );
        assert!(
            pin(By::User).check("b:2", None).unwrap_err().starts_with("b:2 is an older server, which does not say")
        );
    }
}
