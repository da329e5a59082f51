//! What the commands that talk to a server have in common.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{Client, ConnectError};
use baton_types::limits::ADDRESS;
use baton_types::name::{NAME_BYTES_MAX, parse_escaped};

use crate::output::Failure;

/// No server answered, or none had room for us.
pub const NO_SERVER: u8 = 69;

/// Where the servers are, handed down to a command under a lock.
pub const SERVER: &str = "BATON_SERVER";

/// Where the servers are.
#[derive(clap::Args)]
pub struct ServerArgs {
    #[arg(long, value_name = "ADDRESS,...", help = format!(
        "Where the server listens; several are separated by commas [env: {SERVER}] [default: {ADDRESS}]"
    ))]
    server: Option<String>,
}

impl ServerArgs {
    /// Connects to the first server that answers. Each is tried once: people want to know at once that none is there.
    pub async fn connect(&self) -> Result<Client, Failure> {
        Client::connect_once(self.addresses(), Duration::MAX).await.map_err(not_connected)
    }

    /// For sessions, which connect by themselves.
    pub fn client(&self) -> Result<Client, Failure> {
        Client::lazy(self.addresses()).map_err(not_connected)
    }

    /// Where they are, each as it was named.
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

/// What the option says, or else the environment, where an empty word is none.
fn addresses<'a>(option: Option<&'a str>, environment: Option<&'a str>) -> Vec<&'a str> {
    let environment = environment.filter(|servers| !servers.trim().is_empty());
    option.or(environment).unwrap_or(ADDRESS).split(',').map(str::trim).collect()
}

/// No server is there, or none that serves us.
pub fn no_server(error: impl Display) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(NO_SERVER) }
}

/// Runs a command that talks to a server.
pub fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::bad_input(format!("cannot start: {error}")))?.block_on(talk)
}

/// Which lock.
#[derive(clap::Args)]
pub struct NameArgs {
    #[arg(help = format!("The name of the lock: 1 to {NAME_BYTES_MAX} bytes"))]
    name: OsString,
    /// NAME is in the escaped form: \xNN is a byte, \\ is a backslash
    #[arg(long)]
    escaped: bool,
}

impl NameArgs {
    /// Its name, as the service wants it.
    pub fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let name = typed_bytes("name of the lock", &self.name, self.escaped)?;
        let right = format!("it must have 1 to {NAME_BYTES_MAX} bytes");
        match name.len() {
            0 => Err(Failure::bad_input(format!("the name of the lock is empty; {right}"))),
            1..=NAME_BYTES_MAX => Ok(name),
            length => Err(Failure::bad_input(format!("the name of the lock has {length} bytes; {right}"))),
        }
    }
}

/// The bytes that were typed: as they are, or in the escaped form.
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
        // Who names one and says nothing has made a mistake, and is told so.
        assert_eq!(addresses(Some(""), Some("a:1")), [""]);
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
        // What counts is what the escapes stand for.
        assert_eq!(name(br"a\xff\\", true).unwrap(), b"a\xff\\");
        assert_eq!(name(br"\x00".repeat(512).as_slice(), true).unwrap(), [0; 512]);
        assert!(name(br"\x00".repeat(513).as_slice(), true).unwrap_err().contains("513 bytes"));
        assert!(name(br"a\n", true).unwrap_err().contains(r"`\n` at byte 1"));
        assert!(name(b"a\xff", true).unwrap_err().contains(r"write each such byte as \xNN"));
    }
}
