//! Options and errors of the commands that talk to a server.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{Client, ClusterId, ConnectError, InvalidName};
use baton_types::limits::ADDRESS;
use baton_types::name::{NAME_BYTES_MAX, parse_escaped};

use crate::output::{Failure, warn};
use crate::view::duration;

/// Exit status: no server answered, or none opened a session.
pub const NO_SERVER: u8 = 69;

/// The environment variable with the addresses. `baton lock` sets it for its command.
pub const SERVER: &str = "BATON_SERVER";

/// The environment variable with the id of the cluster. `baton lock` sets it for its command.
pub const CLUSTER: &str = "BATON_CLUSTER";

#[derive(clap::Args)]
pub struct ServerArgs {
    #[arg(long, global = true, value_name = "ADDRESS,...", help = format!(
        "Address of the server, host:port; separate several addresses by commas [env: {SERVER}] [default: {ADDRESS}]"
    ))]
    server: Option<String>,
    #[arg(long, global = true, value_name = "ID", help = format!(
        "Talk only to servers of this cluster; `baton status` shows its id [env: {CLUSTER}]"
    ))]
    cluster_id: Option<String>,
}

impl ServerArgs {
    /// Connects to the first server that answers. Tries each server once, so that the user learns at once if none
    /// answers.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let cluster = self.cluster()?;
        let client = Client::connect_once(self.addresses(), Duration::MAX).await.map_err(not_connected)?;
        Ok(of_cluster(client, cluster))
    }

    /// A client that is not connected: its sessions connect by themselves.
    pub fn client(&self) -> Result<Client, Failure> {
        self.client_to(self.addresses())
    }

    /// The same, with these addresses.
    pub fn client_to(&self, addresses: Vec<String>) -> Result<Client, Failure> {
        let cluster = self.cluster()?;
        Client::lazy(addresses).map_err(not_connected).map(|client| of_cluster(client, cluster))
    }

    /// The cluster that the user has named.
    fn cluster(&self) -> Result<Option<ClusterId>, Failure> {
        let environment = std::env::var_os(CLUSTER).map(|cluster| cluster.to_string_lossy().into_owned());
        cluster(self.cluster_id.as_deref(), environment.as_deref())
    }

    pub fn addresses(&self) -> Vec<String> {
        let environment = std::env::var_os(SERVER).map(|servers| servers.to_string_lossy().into_owned());
        addresses(self.server.as_deref(), environment.as_deref()).into_iter().map(String::from).collect()
    }
}

fn not_connected(error: ConnectError) -> Failure {
    match error {
        ConnectError::NoServer { .. } => no_server(error),
        ConnectError::NoServers | ConnectError::InvalidAddress { .. } => Failure::bad_input(error),
    }
}

fn of_cluster(client: Client, cluster: Option<ClusterId>) -> Client {
    match cluster {
        Some(cluster) => client.of_cluster(cluster),
        None => client,
    }
}

/// The cluster of the option, else of the environment variable unless it is blank.
fn cluster(option: Option<&str>, environment: Option<&str>) -> Result<Option<ClusterId>, Failure> {
    let environment = environment.filter(|cluster| !cluster.trim().is_empty());
    let (text, from) = match (option, environment) {
        (Some(text), _) => (text, "--cluster-id"),
        (None, Some(text)) => (text, CLUSTER),
        (None, None) => return Ok(None),
    };
    text.trim().parse().map(Some).map_err(|error| Failure::bad_input(format!("{from}: {error}")))
}

/// The addresses of the option, else of the environment variable unless it is blank, else the default.
fn addresses<'a>(option: Option<&'a str>, environment: Option<&'a str>) -> Vec<&'a str> {
    let environment = environment.filter(|servers| !servers.trim().is_empty());
    option.or(environment).unwrap_or(ADDRESS).split(',').map(str::trim).collect()
}

#[derive(clap::Args)]
pub struct ReadArgs {
    /// Show what the answering server knows, without asking a majority whether that is current; says how old it may be.
    /// Works without a leader, and does not know leases
    #[arg(long)]
    pub local: bool,
}

/// Says how old a local read may be.
pub fn tell_age(age: Option<Duration>) {
    warn(match age {
        Some(age) => format!("as of at most {} ago", duration(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))),
        None => "the server does not know how old this is: it has not heard of a leader yet".to_owned(),
    });
}

/// The failure if no server answered or opened a session.
pub fn no_server(error: impl Display) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(NO_SERVER) }
}

pub fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::bad_input(format!("cannot start the event loop: {error}")))?.block_on(talk)
}

#[derive(clap::Args)]
pub struct NameArgs {
    #[arg(help = format!("The name of the lock: 1 to {NAME_BYTES_MAX} bytes"))]
    name: OsString,
    /// NAME is in the escaped form: \xNN is a byte, \\ is a backslash
    #[arg(long)]
    escaped: bool,
}

impl NameArgs {
    /// The name, if its length is valid.
    pub fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let name = typed_bytes("name of the lock", &self.name, self.escaped)?;
        match name.len() {
            1..=NAME_BYTES_MAX => Ok(name),
            bytes => Err(Failure::bad_input(InvalidName { bytes })),
        }
    }
}

/// The bytes of an argument, which is in the escaped form if `is_escaped`. `what` names the argument in errors.
pub fn typed_bytes(what: &str, typed: &OsStr, is_escaped: bool) -> Result<Vec<u8>, Failure> {
    if !is_escaped {
        return Ok(typed.as_bytes().to_vec());
    }
    let text = typed.to_str().ok_or_else(|| {
        Failure::bad_input(format!("the {what} is not UTF-8; with --escaped, write each such byte as \\xNN"))
    })?;
    parse_escaped(text).map_err(|invalid| Failure::bad_input(format!("the {what} cannot be read: {invalid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_the_option_or_the_environment() {
        assert_eq!(addresses(None, None), [ADDRESS]);
        assert_eq!(addresses(None, Some(" ")), [ADDRESS]);
        assert_eq!(addresses(None, Some("a:1, b:2")), ["a:1", "b:2"]);
        assert_eq!(addresses(Some("c:3"), Some("a:1")), ["c:3"]);
        // An empty --server is a mistake, and is not replaced by the environment variable.
        assert_eq!(addresses(Some(""), Some("a:1")), [""]);
    }

    #[test]
    fn the_cluster_is_named_by_the_option_or_the_environment() {
        let id = |id| Some(ClusterId::new(id).unwrap());
        let cluster = |option, environment| cluster(option, environment).map_err(|failure| failure.message);
        assert_eq!([cluster(None, None), cluster(None, Some(" "))], [Ok(None), Ok(None)]);
        assert_eq!(cluster(None, Some("00000000000000ab")), Ok(id(0xab)));
        assert_eq!(cluster(Some("00000000000000AC"), Some("00000000000000ab")), Ok(id(0xac)));
        let told = |from: &str, text: &str| {
            Err(format!(
                "{from}: {text:?} is not the id of a cluster; it must be 16 hexadecimal digits, as `baton status` shows it"
            ))
        };
        assert_eq!(cluster(Some(""), None), told("--cluster-id", ""));
        assert_eq!(cluster(None, Some("ab")), told("BATON_CLUSTER", "ab"));
    }

    #[test]
    fn names_have_1_to_512_bytes() {
        let name = |typed: &[u8], escaped| {
            let name = NameArgs { name: OsStr::from_bytes(typed).to_owned(), escaped };
            name.bytes().map_err(|failure| failure.message)
        };
        assert_eq!(name("déploiement".as_bytes(), false).unwrap(), "déploiement".as_bytes());
        assert_eq!(name(b"a\xff\\", false).unwrap(), b"a\xff\\");
        assert_eq!(name(&[b'a'; 512], false).unwrap().len(), 512);
        assert!(name(b"", false).unwrap_err().contains("empty"));
        assert!(name(&[b'a'; 513], false).unwrap_err().contains("513 bytes"));
        // The length counts bytes, not the characters of the escaped form.
        assert_eq!(name(br"a\xff\\", true).unwrap(), b"a\xff\\");
        assert_eq!(name(br"\x00".repeat(512).as_slice(), true).unwrap(), [0; 512]);
        assert!(name(br"\x00".repeat(513).as_slice(), true).unwrap_err().contains("513 bytes"));
        assert!(name(br"a\n", true).unwrap_err().contains(r"`\n` at byte 1"));
        assert!(name(b"a\xff", true).unwrap_err().contains(r"write each such byte as \xNN"));
    }
}
