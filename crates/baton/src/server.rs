//! What the commands that talk to a server have in common.

use std::ffi::OsStr;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{Client, ConnectError};

use crate::output::Failure;

/// No server answered.
pub const NO_SERVER: u8 = 69;
/// The longest name of a lock.
const NAME_BYTES_MAX: usize = 512;

/// Where the servers are, handed down to a command under a lock.
pub const SERVER: &str = "BATON_SERVER";
/// Where the servers are, if nothing is said.
const DEFAULT: &str = "127.0.0.1:7420";

/// Where the servers are.
#[derive(clap::Args)]
pub struct ServerArgs {
    /// Where the server listens; several are separated by commas [env: BATON_SERVER] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS,...")]
    server: Option<String>,
}

impl ServerArgs {
    /// Connects to the first server that answers.
    pub async fn connect(&self) -> Result<Client, Failure> {
        self.connect_within(Duration::MAX).await
    }

    /// The same, for no longer than this.
    pub async fn connect_within(&self, within: Duration) -> Result<Client, Failure> {
        Client::connect_within(self.addresses(), within).await.map_err(|error| match error {
            ConnectError::NoServer { .. } => no_server(error),
            ConnectError::NoServers | ConnectError::InvalidAddress { .. } => Failure::bad_input(error),
        })
    }
}

impl ServerArgs {
    /// Where they are, each as it was named.
    pub fn addresses(&self) -> Vec<String> {
        let environment = std::env::var_os(SERVER).map(|servers| servers.to_string_lossy().into_owned());
        addresses(self.server.as_deref(), environment.as_deref()).into_iter().map(String::from).collect()
    }
}

/// What the option says, or else the environment, where an empty word is none.
fn addresses<'a>(option: Option<&'a str>, environment: Option<&'a str>) -> Vec<&'a str> {
    let environment = environment.filter(|servers| !servers.trim().is_empty());
    option.or(environment).unwrap_or(DEFAULT).split(',').map(str::trim).collect()
}

/// Nobody is there, or nobody who can help.
pub fn no_server(error: impl Display) -> Failure {
    Failure { message: error.to_string(), status: ExitCode::from(NO_SERVER) }
}

/// Runs a command that talks to a server.
pub fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::bad_input(format!("cannot start: {error}")))?.block_on(talk)
}

/// The name of a lock, as the service wants it.
pub fn lock_name(name: &OsStr) -> Result<String, Failure> {
    let length = name.len();
    if length == 0 {
        return Err(Failure::bad_input("the name of the lock is empty; it must have 1 to 512 bytes"));
    }
    if length > NAME_BYTES_MAX {
        return Err(Failure::bad_input(format!("the name of the lock has {length} bytes; at most 512 are allowed")));
    }
    let utf8 = name.to_str().map(str::to_owned);
    utf8.ok_or_else(|| Failure::bad_input(format!("the name of the lock, {name:?}, is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn servers_are_named_by_the_option_or_the_environment() {
        assert_eq!(addresses(None, None), [DEFAULT]);
        assert_eq!(addresses(None, Some(" ")), [DEFAULT]);
        assert_eq!(addresses(None, Some("a:1, b:2")), ["a:1", "b:2"]);
        assert_eq!(addresses(Some("c:3"), Some("a:1")), ["c:3"]);
        // Who names one and says nothing has made a mistake, and is told so.
        assert_eq!(addresses(Some(""), Some("a:1")), [""]);
    }

    #[test]
    fn names_have_1_to_512_bytes_of_utf8() {
        let refusal = |name: &[u8]| lock_name(OsStr::from_bytes(name)).err().map(|failure| failure.message);
        assert_eq!(lock_name(OsStr::new("déploiement")).ok().as_deref(), Some("déploiement"));
        assert_eq!(refusal(&[b'a'; 512]), None);
        assert!(refusal(b"").unwrap().contains("empty"));
        assert!(refusal(&[b'a'; 513]).unwrap().contains("513 bytes"));
        assert!(refusal(b"a\xff").unwrap().contains("not UTF-8"));
    }
}
