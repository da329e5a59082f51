//! The options of `baton serve` for a node of a cluster.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use baton_client::address_hint;
use baton_server::raft::Timing;
use baton_server::server::{Beginning, PeerOptions};

use crate::durations;
use crate::output::Failure;

#[derive(clap::Args)]
#[command(next_help_heading = "Options for a node of a cluster (docs/cluster.md)")]
pub struct NodeArgs {
    /// Address for the other nodes, host:port
    #[arg(long, value_name = "ADDRESS")]
    peer_listen: Option<String>,
    /// The name of the node, for people [default: the node keeps its name]
    #[arg(long, requires = "peer_listen", value_parser = name)]
    name: Option<String>,
    /// With an empty data folder: form a cluster of these nodes, itself included. Each node needs the same list, of
    /// addresses for nodes
    #[arg(long, value_name = "NAME=ADDRESS,...", requires = "peer_listen", requires = "name", conflicts_with = "join")]
    #[arg(value_parser = list)]
    cluster: Option<List>,
    /// With an empty data folder: wait until this cluster takes the node in (`baton member add`). ADDRESS is the address
    /// for nodes of any member
    #[arg(long, value_name = "ADDRESS", requires = "peer_listen", requires = "name", value_parser = address)]
    join: Option<String>,
    /// Where clients reach the node, if it is not the address of --listen
    #[arg(long, value_name = "ADDRESS", requires = "peer_listen", value_parser = address)]
    advertise: Option<String>,
    /// Where other nodes reach the node, if it is not the address of --peer-listen
    #[arg(long, value_name = "ADDRESS", requires = "peer_listen", value_parser = address)]
    peer_advertise: Option<String>,
    /// How long a node waits for the leader before it wants to lead: a random time from this range, such as 250ms-500ms. A plain number is milliseconds
    #[arg(long, value_name = "MIN-MAX", default_value = "250-500", value_parser = election, requires = "peer_listen")]
    election_timeout: Timing,
    /// Reach the node with the address FROM at TO
    #[arg(long, value_name = "FROM=TO", hide = true, requires = "peer_listen", value_parser = route)]
    peer_route: Vec<(String, String)>,
}

/// The nodes of a new cluster: names, and addresses for nodes.
type List = Vec<(String, String)>;

/// A name has at most this many characters, so that a table with names stays readable.
const NAME_MAX: usize = 64;
/// The range of election timeouts, in milliseconds. A shorter one would take a busy disk for a dead node.
const ELECTION_MS_MIN: u64 = 50;
const ELECTION_MS_MAX: u64 = 60_000;
/// A leader sends this many heartbeats within the shortest election timeout.
const HEARTBEATS: u32 = 5;

impl NodeArgs {
    /// None if the node has no port for other nodes.
    pub fn options(&self) -> Result<Option<PeerOptions>, Failure> {
        let Some(listen) = &self.peer_listen else { return Ok(None) };
        let beginning = match (&self.cluster, &self.join) {
            (Some(list), _) => Beginning::Cluster(list.clone()),
            (None, Some(address)) => Beginning::Join(address.clone()),
            (None, None) => Beginning::GoOn,
        };
        Ok(Some(PeerOptions {
            listen: listening(listen, "127.0.0.1:7520")?,
            name: self.name.clone(),
            advertise: self.advertise.clone(),
            peer_advertise: self.peer_advertise.clone(),
            beginning,
            routes: BTreeMap::from_iter(self.peer_route.iter().cloned()),
            timing: self.election_timeout,
        }))
    }
}

/// The address that `text` stands for, to listen on.
pub fn listening(text: &str, example: &str) -> Result<SocketAddr, Failure> {
    let resolved = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    resolved.ok_or_else(|| {
        let hint = address_hint(text);
        let right = format!("it must be host:port, such as {example}{hint}");
        Failure::bad_input(format!("{text:?} is not an address to listen on; {right}"))
    })
}

/// A member is named by its name or by its id, which is a number. So a name begins with a letter.
pub fn name(text: &str) -> Result<String, String> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.len() <= NAME_MAX
        && text.chars().all(is_allowed);
    is_name.then(|| text.to_owned()).ok_or(format!(
        "a name begins with a letter and has at most {NAME_MAX} letters, digits, hyphens, dots and underscores"
    ))
}

/// An address that other processes dial.
pub fn address(text: &str) -> Result<String, String> {
    let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = !host.is_empty() && !host.contains([' ', '/', ',', '=']);
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    let hint = address_hint(text);
    if !is_address || !hint.is_empty() {
        return Err(format!("{text:?} is not an address; it must be host:port{hint}"));
    }
    if text.parse().is_ok_and(|address: SocketAddr| address.ip().is_unspecified()) {
        return Err(format!("nobody can connect to {text}; name an address of one machine"));
    }
    Ok(text.to_owned())
}

/// The service checks that the nodes of the list fit together.
fn list(text: &str) -> Result<List, String> {
    let node = |entry: &str| {
        let shape = || format!("{entry:?} is not NAME=ADDRESS, such as a=10.0.0.1:7520");
        let (name, address) = entry.split_once('=').ok_or_else(shape)?;
        Ok((self::name(name)?, self::address(address)?))
    };
    text.split(',').map(str::trim).map(node).collect()
}

fn route(text: &str) -> Result<(String, String), String> {
    let (from, to) = text.split_once('=').ok_or(format!("{text:?} is not FROM=TO"))?;
    Ok((address(from)?, address(to)?))
}

fn election(text: &str) -> Result<Timing, String> {
    let wrong = || {
        format!(
            "{text:?} is not MIN-MAX, such as 250ms-500ms: two times from {ELECTION_MS_MIN} ms to {ELECTION_MS_MAX} ms with \
             MIN less than MAX; a plain number is milliseconds"
        )
    };
    let (min, max) = text.split_once('-').ok_or_else(wrong)?;
    let time = |text: &str| match text.parse() {
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => durations::any("--election-timeout", text).map_err(|_| wrong()),
    };
    let (election_min, election_max) = (time(min)?, time(max)?);
    let [least, most] = [ELECTION_MS_MIN, ELECTION_MS_MAX].map(Duration::from_millis);
    if election_min < least || election_max > most || election_min >= election_max {
        return Err(wrong());
    }
    Ok(Timing { heartbeat: election_min / HEARTBEATS, election_min, election_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_name_and_an_address_for_each_node() {
        let pair = |name: &str, address: &str| (name.to_owned(), address.to_owned());
        assert_eq!(list("a=h:1, b=[::1]:2").unwrap(), [pair("a", "h:1"), pair("b", "[::1]:2")]);
        let refused = |text: &str| list(text).unwrap_err();
        assert!(refused("").starts_with("\"\" is not NAME=ADDRESS"));
        assert!(refused("a=h:1,").starts_with("\"\" is not NAME=ADDRESS"));
        assert!(refused("h:1").starts_with("\"h:1\" is not NAME=ADDRESS"));
        assert!(refused("=h:1").starts_with("a name begins with a letter"));
        assert_eq!(refused("a=h"), "\"h\" is not an address; it must be host:port");
        assert_eq!(refused("a=h:0"), "\"h:0\" is not an address; it must be host:port");
        assert_eq!(refused("a=0.0.0.0:1"), "nobody can connect to 0.0.0.0:1; name an address of one machine");
        assert!(refused("a=[::]:1").starts_with("nobody can connect to [::]:1"));
    }

    #[test]
    fn an_ipv6_address_without_brackets_is_told_about_them() {
        let hint = "; an IPv6 address stands in brackets, such as [::1]:7420";
        let told = address("::1:25581").unwrap_err();
        assert_eq!(told, format!("\"::1:25581\" is not an address; it must be host:port{hint}"));
        let told = listening("::x:25581", "127.0.0.1:7420").unwrap_err().message;
        assert!(told.ends_with(&format!("such as 127.0.0.1:7420{hint}")), "{told}");
        assert!(!listening("nowhere", "127.0.0.1:7420").unwrap_err().message.contains("brackets"));
        assert_eq!(listening("[::1]:25581", "").ok(), "[::1]:25581".parse().ok());
    }

    #[test]
    fn a_name_is_no_number_and_fits_into_a_list() {
        for good in ["a", "node-1", "web_1.example", "Z9"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "1", "a=b", "a,b", "a b", "é", "-a", &"a".repeat(65)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn election_timeouts_are_a_range() {
        let Timing { heartbeat, election_min, election_max } = election("250-500").unwrap();
        let ms = Duration::from_millis;
        assert_eq!((heartbeat, election_min, election_max), (ms(50), ms(250), ms(500)));
        for same in ["250ms-500ms", "0.25s-500", "250-0.5s"] {
            assert_eq!(election(same), election("250-500"), "{same}");
        }
        for bad in
            ["250", "500-250", "250-250", "49-100", "100-60001", "a-b", "-1-5", "", "1ms-500ms", "1s-2m", "1s-2x"]
        {
            assert!(election(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_route_has_two_addresses() {
        assert_eq!(route("h:1=k:2").unwrap(), ("h:1".to_owned(), "k:2".to_owned()));
        assert!(route("h:1").is_err() && route("h:1=k").is_err());
    }
}
