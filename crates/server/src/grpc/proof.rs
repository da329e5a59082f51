//! Proof that a connection comes from a member of the cluster. A follower and the leader prove it to each other on each link
//! before the follower carries anything; the calls of [`Proofs`] say how. The leader believes only a proved connection
//! when it says for which client it carries a call, and a follower sends what its clients say to no other server.
//!
//! A proof belongs to the connection on which the nonces were exchanged, so nobody can use it again. Without certificates
//! it does not help against an attacker who sits between the two nodes and passes the proofs on.
//!
//! A node that has no secret carries without a proof: the cluster may have none yet, or the node may still lack that entry
//! of the log. The leader then takes its calls for those of a client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_api::v1;
use baton_api::v1::proofs_client::ProofsClient;
use baton_api::v1::proofs_server::Proofs;
use baton_types::cluster_id::ClusterId;
use baton_types::frames::Leader;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Response, Status};

use super::calls::Peer;
use super::meant;
use crate::host::Host;
use crate::replica::Replica;
use crate::state::cluster::Secret;

/// Both calls of a proof must be answered within this time.
const PROOF_MAX: Duration = Duration::from_secs(1);

type Nonce = [u8; 32];

/// A member that knows the secret of its cluster.
#[derive(Clone, Debug)]
pub struct Member {
    pub secret: Secret,
    pub cluster: ClusterId,
    pub node: u64,
}

/// Which of the two nodes proves. So no proof of the one can be sent back as that of the other.
#[derive(Clone, Copy)]
enum Side {
    Leader,
    Follower,
}

/// What a proof is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Challenge {
    leader: u64,
    follower: u64,
    of_follower: Nonce,
    of_leader: Nonce,
}

impl Member {
    fn mac(&self, side: Side, challenge: &Challenge) -> Hmac<Sha256> {
        // HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret.0).expect("a key of any length will do");
        mac.update(b"baton proof ");
        mac.update(match side {
            Side::Leader => b"L",
            Side::Follower => b"F",
        });
        for id in [self.cluster.get(), challenge.leader, challenge.follower] {
            mac.update(&id.to_be_bytes());
        }
        mac.update(&challenge.of_follower);
        mac.update(&challenge.of_leader);
        mac
    }

    fn proof(&self, side: Side, challenge: &Challenge) -> Vec<u8> {
        self.mac(side, challenge).finalize().into_bytes().to_vec()
    }

    /// Compares in constant time.
    fn is_proof(&self, proof: &[u8], side: Side, challenge: &Challenge) -> bool {
        self.mac(side, challenge).verify_slice(proof).is_ok()
    }
}

/// What the other end of a connection has proved.
#[derive(Debug, Default)]
pub struct Proved(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Nothing,
    Challenged(Challenge),
    /// It is a member.
    Member,
}

impl Proved {
    /// Whether the connection comes from a member of the cluster.
    pub fn is_member(&self) -> bool {
        matches!(*self.state(), State::Member)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the challenge of a follower. What was proved before no longer counts.
    fn challenge(&self, member: &Member, request: &v1::ChallengeRequest) -> Result<v1::ChallengeResponse, Status> {
        let of_follower = Nonce::try_from(&request.nonce[..]).map_err(|_| {
            Status::invalid_argument(format!("the nonce has {} bytes; it must have 32", request.nonce.len()))
        })?;
        let of_leader = draw()?;
        let challenge = Challenge { leader: member.node, follower: request.node, of_follower, of_leader };
        *self.state() = State::Challenged(challenge);
        Ok(v1::ChallengeResponse { nonce: of_leader.to_vec(), proof: member.proof(Side::Leader, &challenge) })
    }

    fn prove(&self, member: &Member, proof: &[u8]) -> Result<(), Status> {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            State::Challenged(challenge) if member.is_proof(proof, Side::Follower, &challenge) => {
                *state = State::Member;
                Ok(())
            }
            State::Challenged(_) => Err(Status::permission_denied(format!(
                "the proof is wrong: this connection does not come from a member of cluster {}",
                member.cluster
            ))),
            State::Nothing | State::Member => {
                Err(Status::failed_precondition("no challenge came before on this connection"))
            }
        }
    }
}

/// Proves to the leader that this node is a member, after the leader has proved it.
pub async fn prove(channel: Channel, member: &Member, leader: &Leader) -> Result<(), Status> {
    let proved = tokio::time::timeout(PROOF_MAX, exchange(channel, member, leader)).await;
    let why = match proved {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(status)) => status.message().to_owned(),
        Err(_) => format!("no answer within {} s", PROOF_MAX.as_secs()),
    };
    let (Leader { name, address, .. }, cluster) = (leader, member.cluster);
    Err(Status::unavailable(format!(
        "the server at {address} has not proved to be node {name} of cluster {cluster}, so this node carries nothing to it: \
         {why}"
    )))
}

async fn exchange(channel: Channel, member: &Member, leader: &Leader) -> Result<(), Status> {
    let mut proofs = ProofsClient::new(channel);
    let of_follower = draw()?;
    let challenge = v1::ChallengeRequest { node: member.node, nonce: of_follower.to_vec() };
    // A server of another cluster says so, and which one it is.
    let mut headers = HeaderMap::new();
    meant::address(&mut headers, Some(member.cluster), leader.node);
    let challenge = Request::from_parts(MetadataMap::from_headers(headers), Extensions::default(), challenge);
    let answer = proofs.challenge(challenge).await?.into_inner();
    let proof = own_proof(member, leader.node, of_follower, &answer)?;
    proofs.prove(v1::ProveRequest { proof }).await?;
    Ok(())
}

/// The follower's proof, if that of the leader is right.
fn own_proof(
    member: &Member,
    leader: u64,
    of_follower: Nonce,
    answer: &v1::ChallengeResponse,
) -> Result<Vec<u8>, Status> {
    let wrong = || Status::permission_denied("its proof is wrong");
    let of_leader = Nonce::try_from(&answer.nonce[..]).map_err(|_| wrong())?;
    let challenge = Challenge { leader, follower: member.node, of_follower, of_leader };
    match member.is_proof(&answer.proof, Side::Leader, &challenge) {
        true => Ok(member.proof(Side::Follower, &challenge)),
        false => Err(wrong()),
    }
}

fn draw() -> Result<Nonce, Status> {
    baton_runtime::random_bytes()
        .map_err(|error| Status::internal(format!("the system gave no random number: {error}")))
}

/// Answers the challenges of followers.
pub struct GrpcProofs<R: Replica>(Arc<Host<R>>);

impl<R: Replica> GrpcProofs<R> {
    pub fn new(host: Arc<Host<R>>) -> Self {
        GrpcProofs(host)
    }

    fn member(&self) -> Result<Member, Status> {
        self.0.member().ok_or_else(|| Status::failed_precondition("this node knows no secret of its cluster yet"))
    }
}

#[tonic::async_trait]
impl<R: Replica> Proofs for GrpcProofs<R> {
    async fn challenge(
        &self,
        request: Request<v1::ChallengeRequest>,
    ) -> Result<Response<v1::ChallengeResponse>, Status> {
        let proved = Peer::of(request.extensions())?.proved;
        Ok(Response::new(proved.challenge(&self.member()?, request.get_ref())?))
    }

    async fn prove(&self, request: Request<v1::ProveRequest>) -> Result<Response<v1::ProveResponse>, Status> {
        let proved = Peer::of(request.extensions())?.proved;
        proved.prove(&self.member()?, &request.get_ref().proof)?;
        Ok(Response::new(v1::ProveResponse {}))
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn member(secret: u8, cluster: u64, node: u64) -> Member {
        Member { secret: Secret([secret; 32]), cluster: ClusterId::new(cluster).unwrap(), node }
    }

    /// The follower asks `leader` and believes that it is node 1. Returns what the leader then says of the follower.
    fn exchange(leader: &Member, follower: &Member) -> Result<bool, Code> {
        let (proved, nonce) = (Proved::default(), [7; 32]);
        let asked = v1::ChallengeRequest { node: follower.node, nonce: nonce.to_vec() };
        let answer = proved.challenge(leader, &asked).unwrap();
        assert!(!proved.is_member());
        let proof = own_proof(follower, 1, nonce, &answer).map_err(|status| status.code())?;
        proved.prove(leader, &proof).map_err(|status| status.code())?;
        Ok(proved.is_member())
    }

    #[test]
    fn members_of_one_cluster_prove_it_and_nobody_else_does() {
        let follower = member(5, 0xa, 2);
        assert_eq!(exchange(&member(5, 0xa, 1), &follower), Ok(true));
        let strangers = [member(6, 0xa, 1), member(5, 0xb, 1), member(5, 0xa, 3)];
        for stranger in &strangers {
            assert_eq!(exchange(stranger, &follower), Err(Code::PermissionDenied), "{stranger:?}");
        }
    }

    #[test]
    fn a_connection_that_gives_a_wrong_proof_is_not_believed() {
        let (leader, follower, proved) = (member(5, 0xa, 1), member(5, 0xa, 2), Proved::default());
        let asked = v1::ChallengeRequest { node: 2, nonce: vec![7; 32] };
        let refused = |proved: &Proved, proof: &[u8]| proved.prove(&leader, proof).unwrap_err().code();
        assert_eq!(refused(&proved, &[0; 32]), Code::FailedPrecondition, "no challenge");
        let answer = proved.challenge(&leader, &asked).unwrap();
        assert_eq!(refused(&proved, &answer.proof), Code::PermissionDenied, "the leader's own proof");
        let right = own_proof(&follower, 1, [7; 32], &answer).unwrap();
        assert_eq!(refused(&proved, &right), Code::FailedPrecondition, "a challenge can be answered once");
        // The leader's nonce is another one each time.
        assert_ne!(proved.challenge(&leader, &asked).unwrap().nonce, answer.nonce);
        assert_eq!(refused(&proved, &right), Code::PermissionDenied, "the proof of another time");
        for proof in [&[][..], &right[..31], &[0; 100]] {
            proved.challenge(&leader, &asked).unwrap();
            assert_eq!(refused(&proved, proof), Code::PermissionDenied);
        }
        assert!(!proved.is_member());
        let short = v1::ChallengeRequest { node: 2, nonce: vec![7; 31] };
        let refused = proved.challenge(&leader, &short).unwrap_err();
        assert_eq!(refused.message(), "the nonce has 31 bytes; it must have 32");
    }

    #[test]
    fn a_proof_is_a_mac_over_what_the_protocol_says() {
        let challenge = Challenge { leader: 1, follower: 2, of_follower: [3; 32], of_leader: [4; 32] };
        let said = [&b"baton proof F"[..], &[0; 7], &[0xa], &[0; 7], &[1], &[0; 7], &[2], &[3; 32], &[4; 32]].concat();
        let mut mac = Hmac::<Sha256>::new_from_slice(&[5; 32]).unwrap();
        mac.update(&said);
        let expected = mac.finalize().into_bytes().to_vec();
        assert_eq!(member(5, 0xa, 2).proof(Side::Follower, &challenge), expected);
    }
}
