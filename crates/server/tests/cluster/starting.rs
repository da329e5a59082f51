//! How servers begin, and what is refused.

use baton_server::server::{Beginning, Options, ServeError};

use crate::client::TestClient;
use crate::server::{Cluster, TestServer, address};

fn bad(error: ServeError) -> String {
    match error {
        ServeError::BadOptions(sentence) => sentence,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused_before_anything_is_opened() {
    let list = |names: &[&str]| names.iter().map(|name| (name.to_string(), address().to_string())).collect::<Vec<_>>();
    let mut server = TestServer::new("d", Beginning::Cluster(list(&["a", "b", "c"])));
    let sentence = bad(server.try_start().await.unwrap_err());
    assert!(sentence.contains("(a, b, c)") && sentence.contains('d'), "{sentence}");
    server.peers().name = None;
    assert!(bad(server.try_start().await.unwrap_err()).contains("--name"));
    server.peers().beginning = Beginning::Join(address().to_string());
    assert!(bad(server.try_start().await.unwrap_err()).contains("--name"));

    let mut server = TestServer::new("a", Beginning::GoOn);
    server.options.listen = "0.0.0.0:0".parse().unwrap();
    assert!(bad(server.try_start().await.unwrap_err()).contains("--advertise"));
    server.peers().advertise = Some("example.com:7420".to_owned());
    server.peers().listen = "0.0.0.0:0".parse().unwrap();
    assert!(bad(server.try_start().await.unwrap_err()).contains("--peer-advertise"));
    // The other nodes are elsewhere, and clients could reach this one only from its own machine.
    server.options.listen = "127.0.0.1:7420".parse().unwrap();
    server.peers().advertise = None;
    server.peers().peer_advertise = Some("example.com:7520".to_owned());
    let sentence = bad(server.try_start().await.unwrap_err());
    assert!(sentence.contains("example.com:7520") && sentence.contains("127.0.0.1:7420"), "{sentence}");
    assert!(!server.options.data.exists(), "nothing was made");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_its_option() {
    let mut one = TestServer::new("a", Beginning::GoOn);
    one.start().await;
    let mut other = TestServer::new("b", Beginning::GoOn);
    other.peers().listen = one.peer_address().parse().unwrap();
    let refused = other.try_start().await.unwrap_err();
    assert!(refused.to_string().contains("--peer-listen"), "{refused}");
}

#[tokio::test]
async fn a_damaged_member_is_told_how_to_come_back_empty_and_a_lone_node_to_restore_a_backup() {
    let mut cluster = Cluster::start().await;
    cluster.leader().await;
    let (address, server) = (cluster.0[0].peer_address(), &mut cluster.0[2]);
    server.stop().await.unwrap();
    let file = server.options.data.join("IDENTITY");
    std::fs::write(&file, "nothing").unwrap();
    let sentence = server.try_start().await.unwrap_err().to_string();
    for command in ["baton member remove c", &format!("--join {address}"), "baton member add c"] {
        assert!(sentence.contains(&format!("{command}`")), "{sentence}");
    }
    assert!(sentence.contains(" IDENTITY is damaged at byte 0: "), "{sentence}");

    server.options.peers = None;
    let sentence = server.try_start().await.unwrap_err().to_string();
    assert!(sentence.ends_with("; restore a backup (`baton restore`)"), "{sentence}");
}

#[tokio::test]
async fn servers_with_other_lists_are_refused() {
    let mut cluster = Cluster::new();
    let Beginning::Cluster(list) = &mut cluster.0[2].peers().beginning else { panic!("a list") };
    list.remove(0);
    for server in &mut cluster.0 {
        server.start().await;
    }
    // The first one that hears another list ends, and the others may not find it any more.
    match TestServer::first_to_end(&mut cluster.0).await.unwrap_err() {
        ServeError::Refused(sentence) => assert!(sentence.contains("list"), "{sentence}"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_server_that_waits_for_others_stops_when_it_is_told_to() {
    let mut cluster = Cluster::new();
    let server = &mut cluster.0[0];
    server.start().await;
    let waits = server.cluster().await;
    assert!(waits.leader.is_none() && !waits.no_leader.is_empty(), "{waits:?}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_not_empty_goes_on_whatever_the_list_says() {
    let mut cluster = Cluster::start().await;
    let (leader, others) = cluster.leader().await;
    let (mut client, _) = TestClient::open(7, &cluster.0[leader]).await;
    let fence = client.lock(1, "deploy").await;
    let restarted = &mut cluster.0[others[0]];
    restarted.stop().await.unwrap();
    let name = restarted.name.clone();
    restarted.peers().beginning = Beginning::Cluster(vec![(name, address().to_string())]);
    restarted.start().await;
    cluster.leader().await;
    client.connect(&cluster.0[others[0]]).await;
    assert_eq!(client.lock(1, "deploy").await, fence);
}

/// Otherwise clients that name the addresses of the cluster would find two lock tables there.
#[tokio::test]
async fn a_folder_of_another_cluster_is_not_served_in_the_place_of_a_member() {
    let mut cluster = Cluster::start().await;
    let (_, others) = cluster.leader().await;
    let mut lone = TestServer::new("lone", Beginning::GoOn);
    lone.start().await;
    lone.stop().await.unwrap();
    let member = &mut cluster.0[others[0]];
    member.stop().await.unwrap();
    let data = std::mem::replace(&mut member.options.data, lone.options.data.clone());
    let refused = member.try_start().await.unwrap_err().to_string();
    assert!(refused.contains("belongs to cluster") && refused.contains("--cluster"), "{refused}");
    // With its own folder it goes on.
    member.options.data = data;
    member.start().await;
    cluster.leader().await;
}

#[tokio::test]
async fn a_lone_server_leads_as_soon_as_it_has_started_and_can_grow_later() {
    let elsewhere = |name: &str| (name.to_owned(), address().to_string());
    // The list is ignored: the folder is not empty.
    for beginning in [Beginning::GoOn, Beginning::Cluster(vec![elsewhere("a"), elsewhere("b")])] {
        grows(beginning).await;
    }
}

async fn grows(beginning: Beginning) {
    let mut server = TestServer::new("a", beginning);
    let peers = server.options.peers.take();
    server.start().await;
    let (mut client, told) = TestClient::open(7, &server).await;
    assert_eq!(told, None);
    let fence = client.lock(1, "deploy").await;
    let cluster = server.cluster().await;
    assert_eq!((cluster.members.len(), cluster.members[0].name.as_str()), (1, "default"));
    server.stop().await.unwrap();

    server.options = Options { peers, ..server.options.clone() };
    server.start().await;
    assert_eq!(server.status().await.role, "leader");
    client.connect(&server).await;
    assert_eq!(client.lock(1, "deploy").await, fence);
    // The record gets the name and the address for others.
    let address = (server.options.listen.to_string(), server.peer_address());
    recorded(&server, address).await;
    server.stop().await.unwrap();
    // Others may reach it elsewhere.
    server.peers().advertise = Some("localhost:7420".to_owned());
    server.peers().peer_advertise = Some("localhost:7520".to_owned());
    server.start().await;
    recorded(&server, ("localhost:7420".to_owned(), "localhost:7520".to_owned())).await;
}

/// Waits until the record of the only member has its name and these addresses, for clients and for other nodes.
async fn recorded(server: &TestServer, addresses: (String, String)) {
    let recorded = async {
        loop {
            let member = server.cluster().await.members.remove(0);
            if (member.client_address, member.peer_address) == addresses && member.name == "a" {
                return;
            }
            tokio::time::sleep(crate::server::PAUSE).await;
        }
    };
    tokio::time::timeout(crate::server::LONG, recorded).await.expect("the record is changed");
}

/// A server that is not started yet, with a copy of the data folder of one that is stopped.
fn copy_of(original: &TestServer) -> TestServer {
    let copy = TestServer::new(&original.name, Beginning::GoOn);
    std::fs::create_dir_all(&copy.options.data).unwrap();
    for file in std::fs::read_dir(&original.options.data).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.options.data.join(file.file_name())).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_server_with_a_copied_folder_ends_and_says_why_while_the_original_runs() {
    let mut cluster = Cluster::start().await;
    cluster.leader().await;
    cluster.0[1].stop().await.unwrap();
    let mut copy = copy_of(&cluster.0[1]);
    cluster.0[1].start().await;
    copy.start().await;
    let ServeError::Refused(sentence) = copy.ends().await.unwrap_err() else { panic!("it is refused") };
    assert!(sentence.contains(" answers at ") && sentence.contains(&cluster.0[1].peer_address()), "{sentence}");
    cluster.leader().await;
    assert!(cluster.0.iter().all(TestServer::is_running));
}

#[tokio::test]
async fn a_lone_server_with_a_copied_folder_does_not_start_while_the_original_runs() {
    let mut original = TestServer::new("a", Beginning::GoOn);
    original.start().await;
    original.stop().await.unwrap();
    let mut copy = copy_of(&original);
    original.start().await;
    let refused = copy.try_start().await.unwrap_err().to_string();
    let expected = format!(" answers at {}, the address of this node in the cluster", original.peer_address());
    assert!(refused.contains(&expected), "{refused}");
    // Without the original it has moved, and goes on.
    original.stop().await.unwrap();
    copy.start().await;
    copy.stop().await.unwrap();
}
