//! `baton group`: the file of a group of members, and all members on this machine.

mod board;
mod up;

use std::process::ExitCode;

use baton_peer::{GroupError, GroupFile, MEMBERS_MAX, PeerGroup};
use baton_protocol::mutex::token_ring;
use baton_protocol::registry::{self, About, Family};
use clap::Subcommand;

use crate::output::{Failure, Outcome, print};

/// Groups of members that run one algorithm, without a server
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(Init),
    Up(up::Args),
}

/// Print the file of a group whose members all run on this machine
///
/// Every algorithm fits every size. A helper, such as a coordinator, runs inside one of the members. Edit the addresses
/// to run the members on several machines.
///
/// The words (variant, coordinator, ...) are explained in docs/glossary.md.
///
/// Exit status 0: the file was printed; 2: bad input; 74: the output cannot be written.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
struct Init {
    /// The algorithm; `baton algorithms` lists them
    #[arg(long)]
    algorithm: String,
    /// Number of members, from 2 to 256
    #[arg(long, value_name = "N")]
    size: usize,
    /// The variant of the algorithm [default: `parked` for token-ring, `quorum` for elections, else the algorithm's own]
    #[arg(long)]
    variant: Option<String>,
    /// Number of coordinators, for algorithms with that choice
    #[arg(long, value_name = "N")]
    coordinators: Option<usize>,
    /// Number of votes that win, for algorithms with that choice
    #[arg(long, value_name = "N")]
    votes: Option<usize>,
    /// Longest delay of a message, or the best guess, in milliseconds [default: 100]
    #[arg(long, value_name = "MS")]
    delay_max_ms: Option<u64>,
    /// The port of member 0. The other members have the next ports
    #[arg(long, default_value_t = 7501)]
    port: u16,
    /// The network keeps the bound on delays, and no process pauses: an election then needs no guard
    #[arg(long)]
    assume_synchronous: bool,
}

pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Init(init) => print(&init.text()?).map(|()| ExitCode::SUCCESS),
        Command::Up(up) => up::run(up),
    }
}

/// The variant for a group of real processes, if the user names none. The token of a ring that never rests would keep
/// all members busy, and an election needs a guard, since real suspicions may be wrong.
pub fn usual_variant(about: &About) -> Option<String> {
    match about.family {
        Family::Election => Some("quorum".into()),
        Family::Mutex if about.name == token_ring::ABOUT.name => Some("parked".into()),
        Family::Mutex | Family::Detector | Family::Append => None,
    }
}

impl Init {
    fn text(&self) -> Result<String, Failure> {
        let file = self.file()?;
        PeerGroup::new(file.clone()).map_err(Failure::bad_input)?;
        Ok(to_text(&file))
    }

    fn file(&self) -> Result<GroupFile, Failure> {
        let about = registry::find(&self.algorithm).map_err(Failure::bad_input)?;
        let usual = || usual_variant(about).filter(|_| !self.assume_synchronous);
        let plain = GroupFile::new(about.name, self.members()?);
        Ok(GroupFile {
            variant: self.variant.clone().or_else(usual),
            coordinators: self.coordinators,
            votes: self.votes,
            delay_max_ms: self.delay_max_ms.unwrap_or(plain.delay_max_ms),
            assume_synchronous: self.assume_synchronous,
            ..plain
        })
    }

    fn members(&self) -> Result<Vec<String>, Failure> {
        let size = self.size;
        if size > MEMBERS_MAX {
            return Err(Failure::bad_input(GroupError::TooMany { members: size }));
        }
        let port_max = usize::from(u16::MAX) + 1 - size.max(1);
        if !(1..=port_max).contains(&usize::from(self.port)) {
            let wrong = format!("--port cannot be {}; for {size} members it is from 1 to {port_max}", self.port);
            return Err(Failure::bad_input(wrong));
        }
        Ok((0..size).map(|id| format!("127.0.0.1:{}", usize::from(self.port) + id)).collect())
    }
}

fn to_text(file: &GroupFile) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut lines = vec![
        "# One group of `baton peer`. Every member reads this file and has an id of its own, from 0 on:".to_owned(),
        "#   baton peer --group FILE --id 0".to_owned(),
        format!("algorithm = {}", quoted(&file.algorithm)),
    ];
    lines.extend(file.variant.as_deref().map(|variant| format!("variant = {}", quoted(variant))));
    lines.extend(file.coordinators.map(|count| format!("coordinators = {count}")));
    lines.extend(file.votes.map(|count| format!("votes = {count}")));
    lines.push("# The longest delay of a message, or the best guess, in milliseconds.".to_owned());
    lines.push(format!("delay_max_ms = {}", file.delay_max_ms));
    if file.assume_synchronous {
        lines.push("# No message takes longer, and no process pauses: a silent process has crashed.".to_owned());
        lines.push("assume_synchronous = true".to_owned());
    }
    lines.push("# The addresses, in the order of ids.".to_owned());
    lines.push("members = [".to_owned());
    lines.extend(file.members.iter().map(|address| format!("    {},", quoted(address))));
    lines.push("]\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(algorithm: &str, size: usize) -> Init {
        Init {
            algorithm: algorithm.into(),
            size,
            variant: None,
            coordinators: None,
            votes: None,
            delay_max_ms: None,
            port: 7501,
            assume_synchronous: false,
        }
    }

    fn refusal(init: &Init) -> String {
        init.text().err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn what_is_printed_is_a_group_of_any_algorithm_and_size() {
        for about in registry::ALGORITHMS.iter().filter(|about| about.family != Family::Append) {
            for size in [2, 3, 7, 10, MEMBERS_MAX] {
                let init = init(about.name, size);
                let text = init.text().unwrap_or_else(|failure| panic!("{}: {}", about.name, failure.message));
                let group = PeerGroup::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                assert_eq!(group.file(), &init.file().ok().unwrap(), "{text}");
                assert_eq!(group.members(), size);
            }
        }
    }

    #[test]
    fn every_option_is_printed() {
        let voting = Init {
            variant: Some("ask-all+back-off:3".into()),
            coordinators: Some(5),
            votes: Some(4),
            delay_max_ms: Some(20),
            port: 9000,
            ..init("voting", 3)
        };
        let group = PeerGroup::parse(&voting.text().ok().unwrap()).unwrap();
        assert_eq!(group.file(), &voting.file().ok().unwrap());
        assert_eq!(group.address(2).unwrap(), "127.0.0.1:9002");
        let bully = Init { assume_synchronous: true, ..init("bully", 3) };
        let group = PeerGroup::parse(&bully.text().ok().unwrap()).unwrap();
        assert!(group.file().assume_synchronous && group.file().variant.is_none());
    }

    #[test]
    fn a_ring_rests_and_an_election_is_guarded_unless_a_variant_is_named() {
        let variant = |init: Init| init.file().ok().unwrap().variant;
        assert_eq!(variant(init("token-ring", 3)).as_deref(), Some("parked"));
        for election in ["bully", "chang-roberts", "ring-list"] {
            assert_eq!(variant(init(election, 3)).as_deref(), Some("quorum"));
        }
        assert_eq!(variant(Init { variant: Some("witness".into()), ..init("bully", 3) }).as_deref(), Some("witness"));
        assert_eq!(variant(init("raymond", 3)), None);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_sentence() {
        assert!(refusal(&init("raymonf", 3)).starts_with("there is no algorithm `raymonf`; did you mean raymond"));
        assert_eq!(refusal(&init("raymond", 1)), "a group of 1 is too small; it takes at least 2 processes");
        assert!(refusal(&init("raymond", 0)).starts_with("a group of 0 is too small"));
        assert!(refusal(&init("raymond", usize::MAX)).ends_with(
            "members are too many; at most 256, since every member \
                                                                 connects to every other"
        ));
        assert!(refusal(&init("record-append", 3)).starts_with("`record-append` cannot run between real processes"));
        assert_eq!(
            refusal(&Init { port: 65_530, ..init("raymond", 7) }),
            "--port cannot be 65530; for 7 members it is from 1 to 65529"
        );
        assert!(refusal(&Init { port: 65_529, ..init("raymond", 7) }).is_empty());
        assert!(refusal(&Init { port: 0, ..init("raymond", 7) }).starts_with("--port cannot be 0;"));
        assert!(refusal(&Init { delay_max_ms: Some(0), ..init("raymond", 7) }).starts_with("delay_max_ms is 0"));
        assert!(refusal(&Init { votes: Some(2), ..init("raymond", 7) }).contains("no option for votes"));
        let synchronous = |algorithm: &str| Init { assume_synchronous: true, ..init(algorithm, 3) };
        assert!(refusal(&synchronous("raymond")).starts_with("--assume-synchronous is for elections without a guard"));
        let guarded = Init { variant: Some("quorum".into()), ..synchronous("bully") };
        assert!(refusal(&guarded).contains("has no use for it"));
        let plain = Init { variant: Some("highest".into()), ..init("ring-list", 3) };
        assert!(refusal(&plain).contains("use the variant `quorum` or `witness`"));
    }
}
