//! Opens a node of Raft for a server, and makes it part of its cluster.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tracing::info;

use super::{Beginning, Options, PeerOptions, ServeError, Server, bind, bind_as};
use crate::grpc::CARRIED_MAX;
use crate::host::Host;
use crate::raft::{self, MemberError, NO_DATA, NodeRecord};
use crate::store::{Folder, OpenError, is_folder_of_ours};

/// Resolves when the node is part of its cluster, or when it is refused.
pub type Begins = Pin<Box<dyn Future<Output = Result<(), MemberError>> + Send>>;

impl Server {
    /// Binds the ports, and opens the data. A node that is the only voter of its cluster leads when this returns. Any
    /// other node may still have to find the others: [`Server::run`] does that, and serves meanwhile.
    pub async fn start(options: &Options) -> Result<Self, ServeError> {
        check(options).map_err(ServeError::BadOptions)?;
        // The folder would be made, and get a log.
        if options.anew.is_some() && !is_folder_of_ours(&options.data) {
            let (data, error) = (options.data.clone(), OpenError::Refused { why: NO_DATA.to_owned() });
            return Err(ServeError::Open { data, error, remedy: String::new() });
        }
        // The ports come first: a second server on the same port should report the port, whatever its data folder is.
        let (listener, address) = bind(options.listen).await?;
        let (mut settings, mut peer_address) = (raft::Options::default(), None);
        settings.record.client_address = address.to_string();
        (settings.wishes, settings.anew) = (options.wishes, options.anew);
        if let Some(peers) = &options.peers {
            let (listener, bound) = bind_as(peers.listen, "--peer-listen").await?;
            peer_address = Some(bound);
            settings.record = record(peers, address, bound);
            settings.listener = Some(Box::new(listener));
            settings.routes = peers.routes.clone();
            settings.timing = peers.timing;
            if peers.beginning != Beginning::GoOn {
                settings.beginning = raft::Beginning::Waits;
            }
            settings.others = others(peers);
        }
        let closed = |error: OpenError| {
            let remedy = if error.is_loss() { remedy(options.peers.as_ref()) } else { String::new() };
            ServeError::Open { data: options.data.clone(), error, remedy }
        };
        let folder = Arc::new(Folder::open(&options.data).map_err(closed)?);
        let host = Arc::new(Host::open(folder, options.limits, settings).await.map_err(closed)?);
        let begins = begins(&host, options.peers.as_ref()).await;
        if host.node().is_only_voter().await {
            host.until_leads().await.map_err(|never| closed(never.into()))?;
        }
        let (connections_max, streams_max) = (options.connections_max, options.limits.streams);
        let data = Some(options.data.clone());
        let carried_max = CARRIED_MAX;
        Ok(Server { host, data, listener, address, peer_address, connections_max, streams_max, carried_max, begins })
    }
}

/// What a node does to become part of a cluster. Fails also if another process has the id of the node.
async fn begins(host: &Arc<Host>, peers: Option<&PeerOptions>) -> Option<Begins> {
    let peers = peers?;
    let (beginning, named) = (peers.beginning.clone(), others(peers));
    let is_empty = host.node().is_empty().await;
    if !is_empty && beginning != Beginning::GoOn {
        info!(
            "the data folder is not empty, so the node goes on in its cluster, and neither forms nor joins another (--cluster, \
             --join); for that, start it with an empty folder"
        );
    }
    let host = host.clone();
    Some(Box::pin(async move {
        let node = host.node();
        let begins = async {
            match (beginning, is_empty) {
                (Beginning::GoOn, _) => Ok(()),
                (Beginning::Cluster(list), true) => node.form(list).await,
                (Beginning::Join(address), true) => node.join(address).await,
                (Beginning::Cluster(_), false) => {
                    node.check_own_address().await;
                    node.watch_named(&named).await
                }
                (Beginning::Join(_), false) => futures::try_join!(node.rejoin(), node.watch_named(&named)).map(drop),
            }
        };
        let copied = async { Err(MemberError::Refused(node.copied().await)) };
        futures::try_join!(begins, copied).map(|((), ())| ())
    }))
}

/// What to do when data is damaged or missing. The other members of a cluster have all of it, and an old copy of the
/// folder would be set back.
fn remedy(peers: Option<&PeerOptions>) -> String {
    let alone = "restore a backup (`baton restore`)";
    let Some(peers) = peers else { return format!("; {alone}") };
    let (others, name) = (others(peers), peers.name.as_deref().unwrap_or("NAME"));
    let address = others.first().map_or("ADDRESS", String::as_str);
    let again = format!(
        "bring it back empty: `baton member remove {name}`, start it with an empty data folder and `--join {address}`, `baton \
         member add {name}` (and then `baton member promote {name}`)"
    );
    match others.is_empty() {
        true => {
            format!("; if this node is a member of a cluster, the others have all data: {again}; otherwise {alone}")
        }
        false => format!(
            "; the other members of its cluster have all data, so {again}; only if a majority of the members is damaged, \
             {alone}"
        ),
    }
}

/// Resolves if the node is refused. Returns why.
pub async fn refused(begins: Option<Begins>) -> String {
    match begins {
        Some(begins) => match begins.await {
            Ok(()) => std::future::pending().await,
            Err(refused) => refused.to_string(),
        },
        None => std::future::pending().await,
    }
}

/// Refuses options that contradict each other, before anything is opened.
fn check(options: &Options) -> Result<(), String> {
    let Some(peers) = &options.peers else { return Ok(()) };
    let name = peers.name.as_deref();
    if name.is_some_and(str::is_empty) {
        return Err("the name of a node must not be empty".to_owned());
    }
    match (&peers.beginning, name) {
        (Beginning::GoOn, _) | (Beginning::Join(_), Some(_)) => {}
        (_, None) => return Err("a node that forms or joins a cluster needs a name: --name NAME".to_owned()),
        (Beginning::Cluster(list), Some(name)) => raft::check_list(name, list)?,
    }
    if options.listen.ip().is_unspecified() && peers.advertise.is_none() {
        let listen = options.listen;
        return Err(format!("clients of other nodes cannot connect to {listen}: name an address with --advertise"));
    }
    let is_listed = matches!(peers.beginning, Beginning::Cluster(_));
    if peers.listen.ip().is_unspecified() && peers.peer_advertise.is_none() && !is_listed {
        let listen = peers.listen;
        return Err(format!("other nodes cannot connect to {listen}: name an address with --peer-advertise"));
    }
    let is_loopback = |address: &str| {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        host == "localhost" || address.parse().is_ok_and(|address: SocketAddr| address.ip().is_loopback())
    };
    let client = peers.advertise.clone().unwrap_or_else(|| options.listen.to_string());
    let peer = own_peer_address(peers).unwrap_or_else(|| peers.listen.to_string());
    if is_loopback(&client) && !is_loopback(&peer) {
        return Err(format!(
            "other nodes reach this node at {peer}, but only this machine reaches its address for clients, {client}; name \
             another with --listen or --advertise"
        ));
    }
    Ok(())
}

/// The address for other nodes that the user has named: by itself, or in the list.
fn own_peer_address(peers: &PeerOptions) -> Option<String> {
    let listed = match (&peers.beginning, &peers.name) {
        (Beginning::Cluster(list), Some(name)) => list.iter().find(|(listed, _)| listed == name),
        _ => None,
    };
    peers.peer_advertise.clone().or_else(|| listed.map(|(_, address)| address.clone()))
}

/// The peer addresses of other nodes that the user has named.
fn others(peers: &PeerOptions) -> Vec<String> {
    match &peers.beginning {
        Beginning::GoOn => Vec::new(),
        Beginning::Cluster(list) => {
            let others = list.iter().filter(|(name, _)| Some(name) != peers.name.as_ref());
            others.map(|(_, address)| address.clone()).collect()
        }
        Beginning::Join(address) => vec![address.clone()],
    }
}

/// The record of the node in its cluster. An empty field stays as it is.
fn record(peers: &PeerOptions, client: SocketAddr, peer: SocketAddr) -> NodeRecord {
    let peer_address = match (&peers.peer_advertise, &peers.beginning) {
        (Some(address), _) => address.clone(),
        // An empty node takes it from the list. Any other ignores the list, keeps the address in its record, and may listen
        // at an address that the others do not reach.
        (None, Beginning::Cluster(_)) => String::new(),
        (None, _) => peer.to_string(),
    };
    NodeRecord {
        name: peers.name.clone().unwrap_or_default(),
        peer_address,
        client_address: peers.advertise.clone().unwrap_or_else(|| client.to_string()),
    }
}
