//! Data folders that an older version wrote. Reading them loses nothing, and all earlier answers to clients stay true.

pub(super) mod text;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::*;

const FOLDERS: [&str; 4] = ["log-only", "snapshot-and-log", "killed", "killed-at-roll"];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/format-1")
}

pub(super) fn read(name: &str) -> String {
    std::fs::read_to_string(kept().join(name)).unwrap()
}

pub(super) fn disk_of(folder: &str) -> FakeDisk {
    let disk = FakeDisk::default();
    for file in std::fs::read_dir(kept().join(folder)).unwrap() {
        let file = file.unwrap();
        disk.put(file.file_name().to_str().unwrap(), std::fs::read(file.path()).unwrap());
    }
    disk
}

/// Shows only the first line that differs: the whole texts are long.
fn assert_same(folder: &str, found: &str, expected: &str) {
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "{folder}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{folder}");
}

/// Asserts that the state equals the old version's table, and gives the same answers. Only the term is higher by
/// `starts`, because the node became leader that many times since, or by more: a slow node may elect itself again.
fn assert_nothing_lost(folder: &str, state: &State, starts: u64) {
    let expected = read(&format!("{folder}.expected.txt"));
    let (term, expected) = expected.split_once('\n').unwrap();
    let term: u64 = term.strip_prefix("term ").unwrap().parse().unwrap();
    assert!(state.term() >= term + starts, "{folder}: term {} after term {term}", state.term());
    assert_same(folder, &text::seen(state), &format!("term {}\n{expected}", state.term()));
    let answers = text::answers(state, &read(&format!("{folder}.requests.txt")));
    let expected = read(&format!("{folder}.expected-answers.txt"));
    assert_same(folder, &delays_first(&answers), &delays_first(&expected));
    state.check().unwrap();
}

/// The old version closed and granted the locks of an ended session one by one. The new version closes all locks before
/// it grants any, because a claim may want several locks. Fences and generations are the same; only the order of the
/// effects differs. This sorts the effects into the new order.
fn delays_first(answers: &str) -> String {
    let line = |line: &str| {
        let (what, effects) = line.split_once(": ").unwrap();
        let mut effects: Vec<&str> = effects.split("; ").collect();
        effects.sort_by_key(|effect| (!effect.starts_with("Ended"), !effect.starts_with("LockDelay")));
        format!("{what}: {}\n", effects.join("; "))
    };
    answers.lines().map(line).collect()
}

#[tokio::test]
async fn nothing_is_lost_however_often_a_kept_folder_is_opened() {
    for folder in FOLDERS {
        let disk = disk_of(folder);
        for starts in 1..=3 {
            let node = start(&disk).await;
            assert_nothing_lost(folder, &node.state(), starts);
            assert_eq!(node.status().node, 1, "version 1 knew no other node");
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
            let node = Node::open(Arc::new(disk), options()).await.unwrap();
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
        let node = start(&disk).await;
        let sessions = node.state().counts().sessions;
        for session in 1..=500 {
            node.propose(open_session(1 << 40 | session)).await.unwrap().await.unwrap();
            node.propose(request(1 << 40 | session, 1, Operation::Close)).await.unwrap().await.unwrap();
        }
        assert_eq!(node.state().counts().sessions, sessions);
        let before = node.state();
        node.shutdown().await;
        assert!(everything(&disk).await.unwrap().3 > applied, "{folder}: there is a new snapshot");
        let node = start(&disk).await;
        assert_nothing_lost(folder, &node.state(), 2);
        assert_eq!(node.state().revision(), before.revision(), "{folder}");
        node.shutdown().await;
    }
}

#[tokio::test]
async fn a_power_cut_at_any_moment_of_the_migration_changes_nothing() {
    for folder in FOLDERS {
        let expected = everything(&disk_of(folder)).await.unwrap();
        let disk = disk_of(folder);
        let cuts = Arc::new(Mutex::new(Vec::new()));
        let seen = cuts.clone();
        disk.before_each(move |inner, _| {
            let mut seen = seen.lock().unwrap();
            // Seed 0 drops all unsynced data. The other seed keeps some of it.
            for seed in [0, 1 + seen.len() as u64] {
                seen.push(inner.after_power_cut(seed));
            }
            Ok(())
        });
        assert!(everything(&disk).await.unwrap() == expected, "{folder}");
        let cuts = std::mem::take(&mut *cuts.lock().unwrap());
        assert!(cuts.len() > 100, "{folder}: {} cuts", cuts.len());
        for (i, disk) in cuts.into_iter().enumerate() {
            match everything(&disk).await {
                Ok(found) => assert!(found == expected, "{folder}, cut {i}"),
                Err(error) => panic!("{folder}, cut {i}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn an_error_in_the_midst_of_the_migration_changes_nothing() {
    for folder in ["snapshot-and-log", "killed-at-roll"] {
        let expected = everything(&disk_of(folder)).await.unwrap();
        for fail_at in 0.. {
            let disk = disk_of(folder);
            let mut left = fail_at;
            disk.before_each(move |_, _| {
                left -= 1;
                if left < 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            });
            let failed = everything(&disk).await.is_err();
            disk.ask_no_more();
            assert!(everything(&disk).await.unwrap() == expected, "{folder}, operation {fail_at}");
            if !failed {
                assert!(fail_at > 10, "{folder}: the migration takes more operations than {fail_at}");
                break;
            }
        }
    }
}
