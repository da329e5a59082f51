//! Data folders that an older version wrote. Reading them loses nothing, and all earlier answers to clients stay true.

mod text;

use std::path::{Path, PathBuf};

use futures::future::join_all;

use super::cluster::{leader, seats, simulate};
use super::*;

/// Folders of one node.
const FOLDERS: [&str; 2] = ["log-only", "snapshot-and-log"];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/format-3")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(kept().join(name)).unwrap()
}

fn disk_of(folder: &str) -> FakeDisk {
    let disk = FakeDisk::default();
    put_files(&disk, folder);
    disk
}

fn put_files(disk: &FakeDisk, folder: &str) {
    for file in std::fs::read_dir(kept().join(folder)).unwrap() {
        let file = file.unwrap();
        disk.put(file.file_name().to_str().unwrap(), std::fs::read(file.path()).unwrap());
    }
}

/// The only warning is that the folder is upgraded.
fn upgrading() -> Options {
    let warn: Warn = Arc::new(|what| {
        assert_eq!(
            what,
            "the data folder had data format 3 and now has 4: the version that wrote it cannot open it any more"
        );
    });
    Options { warn, ..options() }
}

async fn start_upgraded(disk: &FakeDisk) -> Node {
    let node = Node::open(Arc::new(disk.clone()), upgrading()).await.unwrap();
    leads(&node).await;
    node
}

/// Shows only the first line that differs: the whole texts are long.
fn assert_same(folder: &str, found: &str, expected: &str) {
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "{folder}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{folder}");
}

/// Asserts that the state equals the old version's, and gives the same answers. Only the term is higher by `starts`,
/// because the node became leader that many times since, or by more: a slow node may elect itself again.
fn assert_nothing_lost(folder: &str, state: &State, starts: u64) {
    let expected = read(&format!("{folder}.expected.txt"));
    let (term, expected) = expected.split_once('\n').unwrap();
    let term: u64 = term.strip_prefix("term ").unwrap().parse().unwrap();
    assert!(state.term() >= term + starts, "{folder}: term {} after term {term}", state.term());
    assert_same(folder, &text::seen(state), &format!("term {}\n{expected}", state.term()));
    let answers = text::answers(state, &read(&format!("{folder}.requests.txt")));
    assert_same(folder, &answers, &read(&format!("{folder}.expected-answers.txt")));
    state.check().unwrap();
}

#[tokio::test]
async fn nothing_is_lost_however_often_a_kept_folder_is_opened() {
    for folder in FOLDERS {
        let disk = disk_of(folder);
        for starts in 1..=3 {
            let node = start_upgraded(&disk).await;
            assert_nothing_lost(folder, &node.state(), starts);
            node.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_kept_folder_is_opened_by_the_file_system() {
    for folder in FOLDERS {
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(kept().join(folder)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        for starts in 1..=2 {
            let disk = crate::store::Folder::open(copy.path()).unwrap();
            let node = Node::open(Arc::new(disk), upgrading()).await.unwrap();
            leads(&node).await;
            assert_nothing_lost(folder, &node.state(), starts);
            node.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_kept_folder_goes_on_with_snapshots_of_its_own() {
    for folder in FOLDERS {
        let disk = disk_of(folder);
        let applied = everything(&disk).await.unwrap().3;
        let node = start_upgraded(&disk).await;
        let sessions = node.state().counts().sessions;
        for session in 1..=500 {
            node.propose(open_session(1 << 40 | session)).await.unwrap();
            node.propose(request(1 << 40 | session, 1, Operation::Close)).await.unwrap();
        }
        assert_eq!(node.state().counts().sessions, sessions);
        let before = node.state();
        node.shutdown().await;
        assert!(everything(&disk).await.unwrap().3 > applied, "{folder}: there is a new snapshot");
        let node = start_upgraded(&disk).await;
        assert_nothing_lost(folder, &node.state(), 2);
        assert_eq!(node.state().revision(), before.revision(), "{folder}");
        node.shutdown().await;
    }
}

/// Also if two nodes of the new version start before the third.
#[test]
fn a_kept_cluster_goes_on_with_everything() {
    simulate(0, async {
        let seats = seats(3);
        for (at, seat) in seats.iter().enumerate() {
            put_files(&seat.disk, &format!("three-nodes/{at}"));
        }
        let mut nodes = join_all(seats[..2].iter().map(|seat| seat.open(Beginning::Waits))).await;
        let first = leader(&nodes.iter().collect::<Vec<_>>()).await;
        leads(&nodes[first]).await;
        assert_nothing_lost("three-nodes", &nodes[first].state(), 1);
        nodes.push(seats[2].open(Beginning::Waits).await);
        let applied = nodes[first].status().applied;
        for node in &nodes {
            while node.status().applied < applied {
                baton_runtime::sleep(MOMENT).await;
            }
            assert!(node.state() == nodes[first].state());
        }
        for node in nodes {
            node.shutdown().await;
        }
    });
}
