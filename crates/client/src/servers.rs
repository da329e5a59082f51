//! The servers, and how to reach one of them.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use crate::error::ConnectError;

/// How long one server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long a connection may be silent before the server is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(5);

/// All servers of one service, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    endpoints: Vec<Endpoint>,
}

impl Servers {
    pub(crate) fn parse<I>(addresses: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let endpoints: Vec<Endpoint> =
            addresses.into_iter().map(|address| endpoint(address.as_ref())).collect::<Result<_, _>>()?;
        if endpoints.is_empty() { Err(ConnectError::NoServers) } else { Ok(Servers { endpoints }) }
    }

    pub(crate) fn count(&self) -> usize {
        self.endpoints.len()
    }

    /// Connects to the server of this turn; they take turns. A failure names the server.
    ///
    /// The name of the server is resolved anew each time, so that a server that moved is found: `Endpoint::connect` makes a
    /// new `HttpConnector`, which asks `getaddrinfo` before each connection and keeps no answer. So nothing may be kept
    /// here but the name either: no `Channel`, no address.
    pub(crate) async fn connect(&self, turn: usize, within: Duration) -> Result<Channel, String> {
        let endpoint = &self.endpoints[turn % self.endpoints.len()];
        let connects = endpoint.connect();
        let reason = match tokio::time::timeout(within.min(CONNECT_MAX), connects).await {
            Ok(Ok(channel)) => return Ok(channel),
            Ok(Err(error)) => root_cause(&error),
            Err(_) => "it does not answer".to_owned(),
        };
        Err(format!("{}: {reason}", self.address(turn)))
    }

    /// The address of the server of this turn, as it was named.
    pub(crate) fn address(&self, turn: usize) -> String {
        let uri = self.endpoints[turn % self.endpoints.len()].uri();
        uri.authority().map_or_else(|| uri.to_string(), ToString::to_string)
    }

    /// Connects to the first that answers, from this turn on. Each has its share of the time.
    pub(crate) async fn connect_any(&self, turn: usize, within: Duration) -> Result<Channel, ConnectError> {
        let mut reasons = Vec::new();
        let share = within / u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX);
        for turn in (turn..).take(self.endpoints.len()) {
            match self.connect(turn, share).await {
                Ok(channel) => return Ok(channel),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(ConnectError::NoServer { reasons: reasons.join("; ") })
    }
}

fn endpoint(address: &str) -> Result<Endpoint, ConnectError> {
    let invalid = || ConnectError::InvalidAddress { address: address.to_owned() };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| invalid())?;
    let uri = endpoint.uri();
    // Nothing but a host and a port: what else an address may say would be ignored.
    let is_plain = uri.authority().is_some_and(|authority| authority.as_str() == address) && uri.port_u16().is_some();
    if !is_plain || uri.host().is_none_or(str::is_empty) || address.contains('@') {
        return Err(invalid());
    }
    let endpoint = endpoint.connect_timeout(CONNECT_MAX).tcp_nodelay(true);
    Ok(endpoint.http2_keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_EVERY).keep_alive_while_idle(true))
}

/// "transport error" tells nobody anything; what is at the bottom of it does.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7420", "[::1]:7420", "locks.example:1"] {
            assert_eq!(Servers::parse([good]).unwrap().address(0), good);
        }
        for bad in ["", "localhost", ":7420", "host:port", "host:99999", "http://host:1", "host:1/path", "a@host:1"] {
            let error = Servers::parse([bad]).unwrap_err();
            assert_eq!(error, ConnectError::InvalidAddress { address: bad.to_owned() });
        }
        assert_eq!(Servers::parse(Vec::<String>::new()).unwrap_err(), ConnectError::NoServers);
    }
}
