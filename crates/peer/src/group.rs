//! The members of a group and the algorithm that they run. Every member reads the same file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use baton_protocol::detector::Detector;
use baton_protocol::election::{Election, chang_roberts};
use baton_protocol::mutex::Mutex;
use baton_protocol::registry::{self, About, Family, Params, SetupError, Topology, Visitor};
use baton_protocol::{Group, ProcessId, Ticks};
use serde::{Deserialize, Serialize};

/// Largest number of members. There is a limit because every member connects to every other.
pub const MEMBERS_MAX: usize = 256;

/// Far more than the addresses of all members need.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One hour.
const DELAY_MAX_MS_MAX: u64 = 3_600_000;

/// The place of a member in the group file, from 0 on.
pub type MemberId = usize;

/// The contents of a group file, unchecked. [`PeerGroup::new`] checks them.
///
/// ```
/// let group = baton_peer::PeerGroup::parse(
///     r#"
///     algorithm = "central"
///     members = ["127.0.0.1:7501", "127.0.0.1:7502", "127.0.0.1:7503"]
///     "#,
/// )?;
/// // Every member is a client. The coordinator is the fourth process, and member 0 carries it.
/// assert_eq!((group.members(), group.processes(), group.carrier(3)), (3, 4, 0));
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
    /// The network has the bound `delay_max_ms` on every delay, and no process pauses. Then a silent process is a
    /// crashed one, and an election needs no guard.
    #[serde(default)]
    pub assume_synchronous: bool,
    /// The addresses, `host:port`, in the order of ids. Members may know each other under different addresses.
    pub members: Vec<String>,
}

fn delay_max_ms() -> u64 {
    100
}

impl GroupFile {
    pub fn read(path: impl AsRef<Path>) -> Result<Self, GroupError> {
        let path = path.as_ref();
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        let bytes = read.map_err(|source| GroupError::Read { path: path.into(), source })?;
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(GroupError::TooLong { path: path.into() });
        }
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self, GroupError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            GroupError::Syntax { line, message: error.message().to_owned() }
        })
    }

    /// The text of a file with these contents.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a group file has names, numbers and a list of names")
    }

    /// A group of these members that runs the default variant of `algorithm`.
    pub fn new(algorithm: impl Into<String>, members: Vec<String>) -> Self {
        GroupFile {
            algorithm: algorithm.into(),
            variant: None,
            coordinators: None,
            votes: None,
            delay_max_ms: delay_max_ms(),
            assume_synchronous: false,
            members,
        }
    }
}

/// A group file that was checked.
#[derive(Clone, Debug)]
pub struct PeerGroup {
    file: GroupFile,
    about: &'static About,
    processes: usize,
    topology: Topology,
}

#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("cannot read the group file {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is not TOML, or has wrong keys.
    #[error("the group file is not valid: {}{}", line.map_or(String::new(), |line| format!("line {line}: ")), message)]
    Syntax { line: Option<usize>, message: String },
    #[error("the group file {path} is longer than {FILE_BYTES_MAX} bytes", path = path.display())]
    TooLong { path: PathBuf },
    /// The algorithm cannot run with these parameters.
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("`{algorithm}` cannot run between real processes; mutual exclusion, elections and detectors can")]
    Unsupported { algorithm: &'static str },
    /// The algorithm takes the critical section from a holder that stays too long.
    #[error(
        "`{algorithm}` with `{variant}` lets another process in while a slow holder is still inside, which a real clock \
         cannot prevent; leave the variant out: a member counts the leases of its own clients (--listen)"
    )]
    Lease { algorithm: &'static str, variant: String },
    /// The election relies on a detector without mistakes.
    #[error(
        "`{algorithm}` assumes that a silent process has crashed, which no real network promises; \
         use the variant {guards}, or say --assume-synchronous"
    )]
    NeedsSynchrony { algorithm: &'static str, guards: &'static str },
    #[error("--assume-synchronous is for elections without a guard; `{algorithm}`{variant} has no use for it")]
    NeedsNoSynchrony { algorithm: &'static str, variant: String },
    #[error("the address of member {id} is {address:?}; it must be host:port, such as 127.0.0.1:7501")]
    Address { id: MemberId, address: String },
    #[error("members {first} and {second} have the same address `{address}`; each needs one of its own")]
    SameAddress { first: MemberId, second: MemberId, address: String },
    #[error("{members} members are too many; at most {MEMBERS_MAX}, since every member connects to every other")]
    TooMany { members: usize },
    #[error("delay_max_ms is {found}; it is at least 1 and at most {DELAY_MAX_MS_MAX}")]
    Delay { found: u64 },
    #[error("there is no member {id}; there are 0 to {}", members - 1)]
    NotAMember { id: MemberId, members: usize },
}

impl PeerGroup {
    pub fn read(path: impl AsRef<Path>) -> Result<Self, GroupError> {
        Self::new(GroupFile::read(path)?)
    }

    /// Parses and checks the text of a group file.
    pub fn parse(text: &str) -> Result<Self, GroupError> {
        Self::new(GroupFile::parse(text)?)
    }

    /// Checks that the group can run.
    pub fn new(mut file: GroupFile) -> Result<Self, GroupError> {
        let about = registry::find(&file.algorithm)?;
        // One file may have a part of the name, and the file of another member the whole name.
        file.algorithm = about.name.into();
        if !(1..=DELAY_MAX_MS_MAX).contains(&file.delay_max_ms) {
            return Err(GroupError::Delay { found: file.delay_max_ms });
        }
        if file.members.len() > MEMBERS_MAX {
            return Err(GroupError::TooMany { members: file.members.len() });
        }
        check_addresses(&file.members)?;
        registry::check(about.name, &params(&file))?;
        check_synchrony(&file, about)?;
        let size = registry::visit(about.name, &params(&file), Measure)?;
        let Size { processes, topology, has_lease } = size.ok_or(GroupError::Unsupported { algorithm: about.name })?;
        if has_lease {
            return Err(GroupError::Lease { algorithm: about.name, variant: file.variant.unwrap_or_default() });
        }
        Ok(PeerGroup { file, about, processes, topology })
    }

    pub fn about(&self) -> &'static About {
        self.about
    }

    /// Number of members. Each of them may request.
    pub fn members(&self) -> usize {
        self.file.members.len()
    }

    /// Number of processes of the algorithm. The first ones are the members' own. The other ones are helpers, such as
    /// coordinators.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// The member that carries this process of the algorithm.
    pub fn carrier(&self, process: ProcessId) -> MemberId {
        process % self.members()
    }

    /// The processes that this member carries: its own process first, then helpers.
    pub fn carried_by(&self, member: MemberId) -> impl Iterator<Item = ProcessId> + use<> {
        (member..self.processes).step_by(self.members())
    }

    /// Whether the algorithm bears a detector that may err. All other algorithms are never told that a member is
    /// silent: they would take it for crashed.
    pub fn bears_wrong_suspicions(&self) -> bool {
        self.about.family == Family::Election
    }

    /// Whether a member may start again, without its memory, while the other members go on.
    pub fn bears_restarts(&self) -> bool {
        match self.about.family {
            Family::Detector => true,
            Family::Election => self.about.name == chang_roberts::ABOUT.name && !is_guarded(&self.params()),
            Family::Mutex | Family::Append => false,
        }
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn file(&self) -> &GroupFile {
        &self.file
    }

    /// The address at which this member listens.
    pub fn address(&self, id: MemberId) -> Result<&str, GroupError> {
        let members = self.members();
        self.file.members.get(id).map(String::as_str).ok_or(GroupError::NotAMember { id, members })
    }

    /// The parameters from which the registry makes the protocol. A tick is a microsecond.
    pub fn params(&self) -> Params {
        params(&self.file)
    }

    /// A hash of everything that the members must agree on; addresses may differ. FNV-1a, because it is the same in
    /// every build.
    pub fn hash(&self) -> u64 {
        let members = vec![String::new(); self.members()];
        fnv(&crate::frame::encode_payload(&GroupFile { members, ..self.file.clone() }))
    }

    /// The id of a generation of the group, for clients.
    pub fn id(&self, generation: u64) -> u64 {
        fnv(&[self.hash().to_be_bytes(), generation.to_be_bytes()].concat())
    }
}

pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn params(file: &GroupFile) -> Params {
    Params {
        n: file.members.len(),
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

/// Whether an election is behind a guard, which bears wrong suspicions.
fn is_guarded(params: &Params) -> bool {
    params.has("quorum") || params.has("witness")
}

/// An election without a guard needs a network that promises enough. Everything else must not get more than it bears.
fn check_synchrony(file: &GroupFile, about: &'static About) -> Result<(), GroupError> {
    let trusts_silence = about.family == Family::Election && !is_guarded(&params(file));
    match (trusts_silence, file.assume_synchronous) {
        (true, false) => Err(GroupError::NeedsSynchrony { algorithm: about.name, guards: "`quorum` or `witness`" }),
        (false, true) => {
            let variant = file.variant.as_ref().map_or(String::new(), |variant| format!(" with `{variant}`"));
            Err(GroupError::NeedsNoSynchrony { algorithm: about.name, variant })
        }
        _ => Ok(()),
    }
}

/// What a group file must know of a group.
struct Size {
    processes: usize,
    topology: Topology,
    has_lease: bool,
}

impl<P> From<Group<P>> for Size {
    fn from(group: Group<P>) -> Self {
        Size { processes: group.processes, topology: group.topology, has_lease: group.lease.is_some() }
    }
}

/// Visits the registry for the size of a group.
struct Measure;

impl Visitor for Measure {
    type Output = Option<Size>;

    fn unsupported(self, _: &'static About) -> Self::Output {
        None
    }

    fn mutex<P: Mutex>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Some(group.into())
    }

    fn election<P: Election>(self, _: &'static About, group: Group<P>) -> Self::Output {
        Some(group.into())
    }

    fn detector<D: Detector>(self, _: &'static About, group: Group<D>) -> Self::Output {
        Some(group.into())
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

    fn group(algorithm: &str, count: usize) -> PeerGroup {
        PeerGroup::new(GroupFile::new(algorithm, members(count))).unwrap()
    }

    #[test]
    fn helpers_are_carried_by_members() {
        assert_eq!(group("ricart-agrawala", 3).processes(), 3);
        let central = group("central", 4);
        assert_eq!((central.processes(), central.carrier(4)), (5, 0));
        assert_eq!(central.carried_by(0).collect::<Vec<_>>(), [0, 4]);
        assert_eq!(central.carried_by(1).collect::<Vec<_>>(), [1]);
        let file = GroupFile { coordinators: Some(5), votes: Some(4), ..GroupFile::new("voting", members(2)) };
        let voting = PeerGroup::new(file).unwrap();
        assert_eq!(voting.carried_by(0).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(voting.carried_by(1).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn every_algorithm_fits_any_size() {
        for about in registry::ALGORITHMS.iter().filter(|about| about.family != Family::Append) {
            for size in (2..=20).chain([MEMBERS_MAX]) {
                let assume_synchronous = about.family == Family::Election;
                let file = GroupFile { assume_synchronous, ..GroupFile::new(about.name, members(size)) };
                let group = PeerGroup::new(file).unwrap_or_else(|error| panic!("{} of {size}: {error}", about.name));
                assert!(group.processes() >= size);
            }
        }
    }

    #[test]
    fn only_an_election_is_told_who_is_silent_and_only_behind_its_guard_or_when_silence_means_a_crash() {
        let file = GroupFile::new("bully", members(3));
        let error = PeerGroup::new(file.clone()).unwrap_err().to_string();
        assert!(error.contains("`quorum` or `witness`") && error.contains("--assume-synchronous"), "{error}");
        for file in [
            GroupFile { variant: Some("quorum".into()), ..file.clone() },
            GroupFile { assume_synchronous: true, ..file.clone() },
        ] {
            let group = PeerGroup::new(file).unwrap();
            assert!(group.bears_wrong_suspicions() && !group.bears_restarts());
        }
        for lock in registry::ALGORITHMS.iter().filter(|about| about.family == Family::Mutex) {
            assert!(!group(lock.name, 3).bears_wrong_suspicions());
            let file = GroupFile { assume_synchronous: true, ..GroupFile::new(lock.name, members(3)) };
            assert!(matches!(PeerGroup::new(file), Err(GroupError::NeedsNoSynchrony { .. })));
        }
        let file = GroupFile { assume_synchronous: true, ..GroupFile::new("chang-roberts", members(3)) };
        assert!(PeerGroup::new(file.clone()).unwrap().bears_restarts());
        let variant = Some("quorum".into());
        let guarded = GroupFile { assume_synchronous: false, variant, ..file };
        assert!(!PeerGroup::new(guarded).unwrap().bears_restarts());
        assert!(group("heartbeat", 3).bears_restarts());
    }

    /// The holder may be paused, and no clock of another process can know.
    #[test]
    fn a_lease_of_the_algorithm_is_refused() {
        let file = GroupFile { variant: Some("lease:5".into()), ..GroupFile::new("central", members(3)) };
        let error = PeerGroup::new(file).unwrap_err();
        assert!(matches!(error, GroupError::Lease { algorithm: "central", .. }), "{error}");
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
            members = ["a.example:1", "b.example:1", "[::1]:1"]
            "#,
        )
        .unwrap();
        let params = group.params();
        assert_eq!((params.n, params.coordinators, params.votes, params.delay_max), (3, Some(3), Some(2), 20_000));
        assert_eq!(params.variant.as_deref(), Some("ask-all"));
        assert_eq!(group.address(2).unwrap(), "[::1]:1");
        assert_eq!(group.address(3).unwrap_err().to_string(), "there is no member 3; there are 0 to 2");
    }

    #[test]
    fn a_file_comes_back_from_its_text() {
        let file = GroupFile { variant: Some("parked".into()), ..GroupFile::new("token-ring", members(3)) };
        assert_eq!(GroupFile::parse(&file.to_toml()).unwrap(), file);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let file = |head: &str, members: &str| refusal(&format!("{head}\nmembers = {members}"));
        assert!(file("algorithm = \"centrall\"", "[]").starts_with("there is no algorithm `centrall`; did you mean"));
        assert_eq!(
            file("algorithm = \"central\"", "[\"a:1\"]"),
            "a group of 1 is too small; it takes at least 2 processes"
        );
        assert!(
            file("algorithm = \"raymond\"\nvariant = \"x\"", "[\"a:1\", \"b:1\"]")
                .starts_with("`raymond` has no variant `x`")
        );
        assert_eq!(
            file("algorithm = \"record-append\"", r#"["a:1", "b:1"]"#),
            "`record-append` cannot run between real processes; mutual exclusion, elections and detectors can"
        );
        assert_eq!(
            file("algorithm = \"raymond\"", r#"["a:1", "a:"]"#),
            "the address of member 1 is \"a:\"; it must be host:port, such as 127.0.0.1:7501"
        );
        assert_eq!(
            file("algorithm = \"raymond\"", r#"["a:1", "b:1", "a:1"]"#),
            "members 0 and 2 have the same address `a:1`; each needs one of its own"
        );
        assert!(
            file("algorithm = \"raymond\"\ndelay_max_ms = 0", "[]").starts_with("delay_max_ms is 0; it is at least 1")
        );
        assert_eq!(
            file("algorithm = \"raymond\"\nvotes = 2", r#"["a:1", "b:1"]"#),
            "`raymond` has no option for votes; only voting has"
        );
        assert!(file("algorithm = \"raymond\"\nvotess = 2", "[]").contains("unknown field `votess`"));
        let too_many = PeerGroup::new(GroupFile::new("raymond", members(MEMBERS_MAX + 1))).unwrap_err().to_string();
        assert!(too_many.starts_with("257 members are too many; at most 256"));
    }

    #[test]
    fn any_difference_but_that_of_addresses_changes_the_hash() {
        let hash = |change: fn(&mut GroupFile)| {
            let mut file = GroupFile::new("voting", members(4));
            change(&mut file);
            PeerGroup::new(file).unwrap().hash()
        };
        let plain = hash(|_| {});
        assert_eq!(plain, hash(|_| {}));
        assert_eq!(plain, hash(|file| file.members.swap(0, 1)));
        assert_ne!(plain, hash(|file| file.delay_max_ms += 1));
        assert_ne!(plain, hash(|file| file.members.push("127.0.0.1:1".into())));
        assert_ne!(plain, hash(|file| file.votes = Some(3)));
    }
}
