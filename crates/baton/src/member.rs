//! `baton member`: list and change the members of a cluster.

use std::process::ExitCode;

use baton_client::{CallError, Changed, ConnectError, MemberUpdate, Refusal, RefusalCode};
use baton_types::views::Cluster;
use clap::Subcommand;
use serde::Serialize;

use crate::cluster::answer::answer;
use crate::cluster::view::{records, whole};
use crate::node_args::{address, name};
use crate::output::{Failure, Outcome, VIOLATED, print, print_json, shown};
use crate::service_args::{ServerArgs, block_on, no_server};

/// List and change the members of a cluster
///
/// Any server of the cluster answers. A member is named by its name or by its id. A change is refused before anything is
/// changed, and the message says what to do instead. To add, promote, remove or transfer what
/// is already so succeeds, and says so. docs/cluster.md shows how to add and replace a node.
///
/// Exit status 0: done; 1: refused, or it is not known whether the change was made; 2: bad input; 69: no server answered,
/// or the cluster has no leader; 74: the output cannot be written.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object: the cluster, after the change; `already` says if nothing was changed
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// List the members with their addresses, and the nodes that wait to be added
    List,
    /// Admit a node that was started with --join, as a learner: it gets all data, but does not vote yet
    Add {
        /// The name of the node
        #[arg(value_parser = name)]
        name: String,
    },
    /// Make a learner a voter
    Promote {
        #[arg(value_parser = member)]
        member: String,
    },
    /// Remove a member, also one that is lost
    Remove {
        #[arg(value_parser = member)]
        member: String,
    },
    /// Change the record of a member
    Update(Update),
    /// Hand the leadership over to a member
    Transfer {
        #[arg(value_parser = member)]
        member: String,
    },
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Changes {
    /// The new name
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Where the other nodes reach it, host:port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    peer_address: Option<String>,
    /// Where clients reach it, host:port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    address: Option<String>,
}

#[derive(clap::Args)]
struct Update {
    #[arg(value_parser = member)]
    member: String,
    #[command(flatten)]
    changes: Changes,
}

/// The name or the id of a member.
fn member(text: &str) -> Result<String, String> {
    match text.parse::<u64>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => name(text).map_err(|why| format!("it is no id of a member, and no name: {why}")),
    }
}

pub fn run(args: &Args) -> Outcome {
    let answer = block_on(args.command.carry_out(&args.server))?;
    match args.json {
        true => print_json(&answer)?,
        false => print(&args.command.to_text(&answer))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The cluster, after the change.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    cluster: Cluster,
    /// A sentence if nothing was changed, because it was so already.
    #[serde(skip_serializing_if = "Option::is_none")]
    already: Option<String>,
}

impl Command {
    async fn carry_out(&self, server: &ServerArgs) -> Result<Answer, Failure> {
        let client = server.client()?;
        let changed = match self {
            Command::List => {
                let cluster = answer(server).await?.cluster.unwrap_or_default();
                Ok(Changed { cluster, already: None })
            }
            Command::Add { name } => client.add_member(name).await,
            Command::Promote { member } => client.promote_member(member).await,
            Command::Remove { member } => client.remove_member(member).await,
            Command::Transfer { member } => client.transfer_leadership(member).await,
            Command::Update(Update { member, changes: Changes { name, peer_address, address } }) => {
                let (name, peer_address, client_address) = (name.clone(), peer_address.clone(), address.clone());
                client.update_member(member, MemberUpdate { name, peer_address, client_address }).await
            }
        };
        let Changed { cluster, already } = changed.map_err(failed)?;
        Ok(Answer { cluster, already })
    }

    /// The table, or one sentence about the change.
    fn to_text(&self, Answer { cluster, already }: &Answer) -> String {
        if let Some(already) = already {
            return format!("{}\n", whole(already));
        }
        let voters = cluster.voters();
        match self {
            Command::List => records(cluster),
            Command::Add { name } => {
                format!("{name} learns the data; when it has all of it, make it a voter: baton member promote {name}\n")
            }
            Command::Promote { member } => format!("{} votes now; voters: {voters}\n", shown(member)),
            Command::Remove { member } => format!("{} is removed; voters: {voters}\n", shown(member)),
            Command::Update(Update { member, .. }) => format!("the record of {} is changed\n", shown(member)),
            Command::Transfer { member } => format!("{} leads now\n", shown(member)),
        }
    }
}

fn failed(error: CallError) -> Failure {
    let refused = |message: String| Failure { message, status: ExitCode::from(VIOLATED) };
    match error {
        CallError::Connect(ConnectError::NoServer { .. })
        | CallError::Refused(Refusal { code: RefusalCode::Unavailable, .. }) => no_server(error),
        CallError::Connect(_) | CallError::InvalidName(_) => Failure::bad_input(error),
        // The sentence of the server says everything.
        CallError::Refused(refusal) => refused(refusal.to_string()),
        CallError::Unanswered | CallError::Unsettled { .. } => refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_named_by_its_name_or_its_id() {
        assert_eq!((member("b"), member("7351139770114483")), (Ok("b".into()), Ok("7351139770114483".into())));
        for bad in ["", "a\nb", "7b", "-1"] {
            assert!(member(bad).is_err_and(|why| why.starts_with("it is no id of a member, and no name")), "{bad:?}");
        }
    }

    #[test]
    fn a_refusal_is_told_from_a_cluster_that_does_not_answer() {
        let refused = |code| CallError::Refused(Refusal::new(code, "it lags"));
        let told = |error| {
            let Failure { message, status } = failed(error);
            (message, format!("{status:?}"))
        };
        let status = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(told(refused(RefusalCode::Invalid)), ("it lags".to_owned(), status(1)));
        assert_eq!(told(refused(RefusalCode::Unavailable)), ("the server refused: it lags".to_owned(), status(69)));
        assert_eq!(told(CallError::Unsettled { message: "list them".into() }), ("list them".to_owned(), status(1)));
        assert_eq!(told(ConnectError::NoServers.into()).1, status(2));
    }
}
