//! The members of a group and the algorithm that they run. Every member reads the same file.

use std::path::{Path, PathBuf};

use baton_protocol::election::Election;
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, Params, SetupError, Topology, Visitor};
use baton_protocol::{Group, ProcessId, Ticks};
use serde::{Deserialize, Serialize};

/// Largest number of members. There is a limit because every member connects to every other.
pub const MEMBERS_MAX: usize = 256;

/// One hour.
const DELAY_MAX_MS_MAX: u64 = 3_600_000;

/// The contents of a group file, unchecked. [`PeerGroup::new`] checks them.
///
/// ```
/// let group = baton_peer::PeerGroup::parse(
///     r#"
///     algorithm = "central"
///     members = ["127.0.0.1:7501", "127.0.0.1:7502", "127.0.0.1:7503"]
///     "#,
/// )?;
/// // The last member is the coordinator.
/// assert_eq!((group.clients(), group.processes()), (2, 3));
/// # Ok::<(), baton_peer::GroupError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupFile {
    /// The name of the algorithm in the registry.
    pub algorithm: String,
    /// The variant of the algorithm. None: the default variant.
    #[serde(default)]
    pub variant: Option<String>,
    /// How many members are coordinators, for algorithms with that choice.
    #[serde(default)]
    pub coordinators: Option<usize>,
    /// How many votes of the coordinators win, for algorithms with that choice.
    #[serde(default)]
    pub votes: Option<usize>,
    /// The longest delay of a message, or the best guess, in milliseconds. Default: 100.
    #[serde(default = "delay_max_ms")]
    pub delay_max_ms: u64,
    /// The addresses, `host:port`, in the order of ids: clients first, then coordinators and other helpers.
    pub members: Vec<String>,
}

fn delay_max_ms() -> u64 {
    100
}

impl GroupFile {
    /// A group of these members that runs the default variant of `algorithm`.
    pub fn new(algorithm: impl Into<String>, members: Vec<String>) -> Self {
        GroupFile {
            algorithm: algorithm.into(),
            variant: None,
            coordinators: None,
            votes: None,
            delay_max_ms: delay_max_ms(),
            members,
        }
    }
}

/// A group file that was checked.
#[derive(Clone, Debug)]
pub struct PeerGroup {
    file: GroupFile,
    about: &'static About,
    clients: usize,
    topology: Topology,
}

#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("cannot read the group file {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is not TOML, or has wrong keys.
    #[error("the group file is not valid: {}", .0.message())]
    Syntax(#[from] toml::de::Error),
    /// The algorithm cannot run with these parameters.
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("`{algorithm}` cannot be run over sockets; only mutual exclusion and elections can")]
    Unsupported { algorithm: &'static str },
    #[error("the address of member {id} is {address:?}; it must be host:port, such as 127.0.0.1:7501")]
    Address { id: ProcessId, address: String },
    #[error("members {first} and {second} have the same address `{address}`; each needs one of its own")]
    SameAddress { first: ProcessId, second: ProcessId, address: String },
    #[error("{members} members are too many; at most {MEMBERS_MAX}, since every member connects to every other")]
    TooMany { members: usize },
    /// No number of clients gives a group of this size.
    #[error("{members} members cannot run `{algorithm}`; {}", sizes_text(sizes))]
    Size {
        members: usize,
        algorithm: &'static str,
        /// The nearest possible sizes, as (clients, members).
        sizes: Vec<(usize, usize)>,
    },
    #[error("delay_max_ms is {found}; it is at least 1 and at most {DELAY_MAX_MS_MAX}")]
    Delay { found: u64 },
    #[error("there is no member {id}; there are 0 to {}", members - 1)]
    NotAMember { id: ProcessId, members: usize },
}

fn sizes_text(sizes: &[(usize, usize)]) -> String {
    let texts: Vec<String> =
        sizes.iter().map(|(clients, members)| format!("{clients} clients need {members} members")).collect();
    texts.join(", ")
}

impl PeerGroup {
    pub fn read(path: impl AsRef<Path>) -> Result<Self, GroupError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| GroupError::Read { path: path.into(), source })?;
        Self::parse(&text)
    }

    /// Parses and checks the text of a group file.
    pub fn parse(text: &str) -> Result<Self, GroupError> {
        Self::new(toml::from_str(text)?)
    }

    /// Checks that the group can run.
    pub fn new(file: GroupFile) -> Result<Self, GroupError> {
        let about = registry::find(&file.algorithm)?;
        if !(1..=DELAY_MAX_MS_MAX).contains(&file.delay_max_ms) {
            return Err(GroupError::Delay { found: file.delay_max_ms });
        }
        if file.members.len() > MEMBERS_MAX {
            return Err(GroupError::TooMany { members: file.members.len() });
        }
        check_addresses(&file.members)?;
        let (clients, topology) = count_clients(&file, about)?;
        Ok(PeerGroup { file, about, clients, topology })
    }

    pub fn about(&self) -> &'static About {
        self.about
    }

    /// How many members may request the critical section. They have the lowest ids; the other members are helpers.
    pub fn clients(&self) -> usize {
        self.clients
    }

    pub fn processes(&self) -> usize {
        self.file.members.len()
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn file(&self) -> &GroupFile {
        &self.file
    }

    /// The address at which this member listens.
    pub fn address(&self, id: ProcessId) -> Result<&str, GroupError> {
        let members = self.processes();
        self.file.members.get(id).map(String::as_str).ok_or(GroupError::NotAMember { id, members })
    }

    /// The parameters from which the registry makes the protocol. A tick is a microsecond.
    pub fn params(&self) -> Params {
        params(&self.file, self.clients)
    }

    /// A hash of everything that the members must agree on. FNV-1a, because it is the same in every build.
    pub fn hash(&self) -> u64 {
        let bytes = crate::frame::encode_payload(&self.file);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

fn params(file: &GroupFile, n: usize) -> Params {
    Params {
        n,
        variant: file.variant.clone(),
        coordinators: file.coordinators,
        votes: file.votes,
        delay_max: file.delay_max_ms as Ticks * 1000,
    }
}

fn check_addresses(members: &[String]) -> Result<(), GroupError> {
    for (id, address) in members.iter().enumerate() {
        let right = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains(char::is_whitespace) && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !right {
            return Err(GroupError::Address { id, address: address.clone() });
        }
        if let Some(first) = members[..id].iter().position(|earlier| earlier == address) {
            return Err(GroupError::SameAddress { first, second: id, address: address.clone() });
        }
    }
    Ok(())
}

/// Finds the number of clients. The file has the number of members, and the algorithm decides how many helpers the
/// clients need.
fn count_clients(file: &GroupFile, about: &'static About) -> Result<(usize, Topology), GroupError> {
    if !matches!(about.family, Family::Mutex | Family::Election) {
        return Err(GroupError::Unsupported { algorithm: about.name });
    }
    let members = file.members.len();
    let mut sizes = Vec::new();
    let mut first_error = None;
    for clients in 2..=members.max(2) {
        match registry::visit(about.name, &params(file, clients), Size) {
            Ok((processes, topology)) if processes == members => return Ok((clients, topology)),
            Ok((processes, _)) => sizes.push((clients, processes)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    // The nearest size below and the nearest above. The size grows with the number of clients.
    let above = sizes.iter().position(|&(_, processes)| processes > members).unwrap_or(sizes.len());
    let sizes = sizes[above.saturating_sub(1)..sizes.len().min(above + 1)].to_vec();
    match first_error {
        Some(error) if sizes.is_empty() => Err(error.into()),
        _ => Err(GroupError::Size { members, algorithm: about.name, sizes }),
    }
}

/// Visits the registry for the number of processes of a group, and their topology.
struct Size;

impl Visitor for Size {
    type Output = (usize, Topology);

    fn unsupported(self, _: &'static About) -> Self::Output {
        (0, Topology::default())
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Self::Output {
        (group.processes, group.topology)
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> Self::Output {
        (group.processes, group.topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> Vec<String> {
        (0..count).map(|id| format!("127.0.0.1:{}", 7501 + id)).collect()
    }

    fn refusal(text: &str) -> String {
        PeerGroup::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn helpers_are_the_last_members() {
        let clients = |algorithm, count| PeerGroup::new(GroupFile::new(algorithm, members(count))).unwrap().clients();
        assert_eq!(clients("ricart-agrawala", 3), 3);
        assert_eq!(clients("central", 4), 3);
        assert_eq!(clients("voting", 6), 3);
        let file = GroupFile { coordinators: Some(5), votes: Some(4), ..GroupFile::new("voting", members(7)) };
        assert_eq!(PeerGroup::new(file).unwrap().clients(), 2);
    }

    #[test]
    fn a_file_says_everything() {
        let group = PeerGroup::parse(
            r#"
            algorithm = "voting"
            variant = "ask-all"
            coordinators = 3
            votes = 2
            delay_max_ms = 20
            members = ["a.example:1", "b.example:1", "[::1]:1", "[::1]:2", "[::1]:3"]
            "#,
        )
        .unwrap();
        let params = group.params();
        assert_eq!((params.n, params.coordinators, params.votes, params.delay_max), (2, Some(3), Some(2), 20_000));
        assert_eq!(params.variant.as_deref(), Some("ask-all"));
        assert_eq!(group.address(2).unwrap(), "[::1]:1");
        assert_eq!(group.address(5).unwrap_err().to_string(), "there is no member 5; there are 0 to 4");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let file = |head: &str, members: &str| refusal(&format!("{head}\nmembers = {members}"));
        assert!(file("algorithm = \"centrall\"", "[]").starts_with("there is no algorithm `centrall`; did you mean"));
        assert_eq!(file("algorithm = \"bully\"", "[]"), "0 members cannot run `bully`; 2 clients need 2 members");
        assert!(file("algorithm = \"bully\"\nvariant = \"x\"", "[]").starts_with("`bully` has no variant `x`"));
        assert_eq!(
            file("algorithm = \"voting\"", r#"["a:1", "a:2", "a:3", "a:4", "a:5"]"#),
            "5 members cannot run `voting`; 2 clients need 4 members, 3 clients need 6 members"
        );
        assert_eq!(
            file("algorithm = \"bully\"", r#"["a:1", "a:"]"#),
            "the address of member 1 is \"a:\"; it must be host:port, such as 127.0.0.1:7501"
        );
        assert_eq!(
            file("algorithm = \"bully\"", r#"["a:1", "b:1", "a:1"]"#),
            "members 0 and 2 have the same address `a:1`; each needs one of its own"
        );
        assert!(
            file("algorithm = \"bully\"\ndelay_max_ms = 0", "[]").starts_with("delay_max_ms is 0; it is at least 1")
        );
        assert_eq!(
            file("algorithm = \"bully\"\nvotes = 2", r#"["a:1", "b:1"]"#),
            "`bully` has no option for votes; only voting has"
        );
        assert!(file("algorithm = \"bully\"\nvotess = 2", "[]").contains("unknown field `votess`"));
        let too_many = PeerGroup::new(GroupFile::new("bully", members(MEMBERS_MAX + 1))).unwrap_err().to_string();
        assert!(too_many.starts_with("257 members are too many; at most 256"));
    }

    #[test]
    fn any_difference_changes_the_hash() {
        let hash = |change: fn(&mut GroupFile)| {
            let mut file = GroupFile::new("voting", members(4));
            change(&mut file);
            PeerGroup::new(file).unwrap().hash()
        };
        let plain = hash(|_| {});
        assert_eq!(plain, hash(|_| {}));
        assert_ne!(plain, hash(|file| file.delay_max_ms += 1));
        assert_ne!(plain, hash(|file| file.members.swap(0, 1)));
        assert_ne!(plain, hash(|file| file.votes = Some(2)));
    }
}
