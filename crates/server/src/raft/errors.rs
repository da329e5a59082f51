//! Why the members are not changed. Each error is a sentence that says what to do.

/// Why the members are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    #[error("this node does not lead{}", .leader.as_ref().map_or(String::new(), |leader| format!("; {leader} does")))]
    NotLeader {
        /// The name of the node that leads, if this node knows it.
        leader: Option<String>,
    },
    #[error("no majority confirms that this node leads")]
    NotConfirmed,
    #[error("there is no member with id {id}; list the members")]
    NoSuchMember { id: u64 },
    #[error("there is no member with the name or id {name}; the members are {members}")]
    NoSuchName { name: String, members: String },
    /// To a removal.
    #[error("no member has the name or id {name} now; the members are {members}")]
    IsNoMember { name: String, members: String },
    #[error("{name} is no member yet, and waits to be added; add it first: `baton member add {name}`")]
    NotAdded { name: String },
    #[error(
        "no node with the name {name} waits to be added{}; start it with `baton serve --name {name} --join ADDRESS`, and \
         leave it running", if .waiting.is_empty() { String::new() } else { format!(" ({waiting} does)") }
    )]
    NobodyWaits { name: String, waiting: String },
    #[error("{count} nodes with the name {name} wait to be added ({addresses}); stop all but one of them")]
    SeveralWait { name: String, count: usize, addresses: String },
    #[error("the node {name} waits to be added, but this node does not reach it: {why}; check its peer address")]
    Unreachable { name: String, why: String },
    #[error("at {address}, where {name} should wait to be added, is {found}; start {name} again")]
    Another { name: String, address: String, found: String },
    #[error(
        "the node {name} reads data formats {} to {}, but the cluster uses {format}; give it the version of the others",
        .theirs.0, .theirs.1
    )]
    OtherFormats { name: String, theirs: (u8, u8), format: u8 },
    #[error("{what} is not a valid {field}: it {why}")]
    Invalid { field: &'static str, what: String, why: &'static str },
    #[error("{name} is a member already (id {id})")]
    IsMember { id: u64, name: String },
    #[error(
        "node {id} has the name {name} already; each member needs a name of its own; if that node is gone, remove it first \
         (`baton member remove {name}`)"
    )]
    NameTaken { id: u64, name: String },
    #[error("{name} has the address {address} already; is it the same node?")]
    AddressTaken { name: String, address: String },
    #[error("{name} does not answer at {address} ({why}); start it there first")]
    NotThere { name: String, address: String, why: String },
    #[error("node {id} ({name}) has no address for other nodes; start it again with `--peer-listen ADDRESS`")]
    NoAddress { id: u64, name: String },
    #[error("the cluster has {count} members already, which is the most; remove one first")]
    Full { count: usize },
    #[error("{name} is a voter already")]
    IsVoter { name: String },
    #[error("{name} does not vote; only a voter can lead")]
    NotVoter { name: String },
    #[error(
        "{name} has {free_mib} MiB of free space, and would hand the leadership back; free {room_mib} MiB there, or name \
         another member"
    )]
    NoRoom { name: String, free_mib: u64, room_mib: u64 },
    #[error("{name} leads already")]
    Leads { name: String },
    #[error(
        "{name} is the last voter, and a cluster without a voter decides nothing; add and promote another node first"
    )]
    LastVoter { name: String },
    /// To a removal, in a cluster of two voters.
    #[error(
        "one of two voters is no majority, so the removal of {name} needs {name}, which does not answer or lacks entries; start it; \
         if it is lost for good, stop this node and start it with `--force-new-cluster`"
    )]
    NeedsIt { name: String },
    #[error("without {name} the voters that answer and get entries would be no majority: {why}")]
    NoMajority {
        name: String,
        /// What is wrong with each of the others.
        why: String,
    },
    /// It answers, but the leader sends it no entries, or it refuses them. The sentence has no subject.
    #[error("{name} {why}")]
    GetsNothing { name: String, why: String },
    #[error("{name} is {behind} entries behind; wait until it has them")]
    Lags { name: String, behind: u64 },
    #[error("{name} does not answer this leader, and was last heard of {ms} ms ago; start it, or remove it")]
    Silent { name: String, ms: u64 },
    #[error("{name} has not answered this leader yet; start it, or remove it if its address is wrong")]
    NeverHeard { name: String },
    #[error("another change of the members is not finished yet; try again")]
    InProgress,
    #[error(
        "the folder of this node has a log or a vote: it belongs to a cluster already; start it without `--cluster` and \
         `--join`, or give it an empty folder"
    )]
    NotEmpty,
    #[error(
        "cluster {cluster:016x} has called this node, and takes it in; if it should begin another cluster, remove it there, \
         and start it with an empty folder"
    )]
    Adopted { cluster: u64 },
    #[error("node {id} is not in the list of members that it begins with")]
    NotListed { id: u64 },
    /// The change may have been made, or may be made later.
    #[error("the leader changed; the change may or may not be made: list the members")]
    Unknown,
    /// The change is in the log, and may be made later.
    #[error("no majority has confirmed the change within {ms} ms; it may still be made: list the members")]
    NotYet { ms: u64 },
    /// The leader may still change.
    #[error("{name} did not take over within {ms} ms")]
    NoTransfer { name: String, ms: u64 },
    #[error(
        "{name} needs at least {ms} ms for each sync of its log, so an election would not end, and no node would lead; start all \
         nodes with `--election-timeout {wanted}`, or with more"
    )]
    SlowSyncs { name: String, ms: u64, wanted: String },
    #[error("no other voter can lead now")]
    Alone,
    #[error("the node is stopped")]
    Stopped,
    #[error("{0}")]
    Refused(String),
}

impl MemberError {
    /// True if nothing has to be changed, because it is as the caller wants it.
    pub fn is_so_already(&self) -> bool {
        use MemberError::{IsMember, IsNoMember, IsVoter, Leads};
        matches!(self, IsMember { .. } | IsNoMember { .. } | IsVoter { .. } | Leads { .. })
    }
}
