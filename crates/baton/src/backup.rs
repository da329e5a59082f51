//! `baton backup`: write the state of a cluster to a file. `baton restore`: make a data folder of such a file.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use baton_client::{CallError, Refusal, RefusalCode};
use baton_server::backup::{Backup, write};
use baton_server::raft::{self, Anew, read_stopped};
use baton_types::name;
use tempfile::NamedTempFile;

use crate::output::{Failure, Outcome, counted, print, unreadable, unwritable};
use crate::serve::{fence, in_ms, wait};
use crate::service_args::{ServerArgs, block_on, no_server};
use crate::view::{ago, duration, size};

/// Write the state of the service to a file
///
/// Asks the running service, which goes on meanwhile. Any server of a cluster will do: a follower passes the call on. The
/// file has everything that was acknowledged before, and no secret of the cluster. `baton restore` makes a data folder of it.
///
/// A copy of the data folder is no backup: fences would go back, and two holders could have one lock (docs/backup.md).
///
/// Exit status 0: the backup is complete and on disk, or FILE is sound; 1: a server or a data folder cannot be read; 2: bad
/// input, also a FILE that is not sound; 69: no server answered.
#[derive(clap::Args)]
pub struct BackupArgs {
    /// The file of the backup
    file: PathBuf,
    /// Only check FILE: read all of it, and show what it is of
    #[arg(long, conflicts_with_all = ["data", "overwrite"])]
    verify: bool,
    /// Back up the data folder of a server that does not run
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Make a data folder of a backup
///
/// The folder is that of a new cluster with one node: a new id, a new secret, no sessions, and fences above all that the old
/// cluster has given. Nothing is granted until every lease of before must have ended. This wait begins when the server
/// leads for the first time, and neither a restart nor another leader makes it shorter. Stop all servers of the old cluster
/// for good: no wait replaces that.
///
/// Exit status 0: the folder is ready for `baton serve`; 1: it cannot be written; 2: bad input. With status 2 nothing was
/// changed.
#[derive(clap::Args)]
pub struct RestoreArgs {
    /// The file of the backup
    file: PathBuf,
    /// Folder for the data: empty, or one that does not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The first fence, exactly: the same N twice gives the same fences twice [default: at least 2^32 above the last one in
    /// FILE and 2^20 for each second since 1970, and another one each time]
    #[arg(long, value_name = "N", value_parser = fence, allow_negative_numbers = true)]
    fence_from: Option<u64>,
    /// Grant locks after this time, for an operator who knows that all holders are gone [default: the longest TTL that a
    /// lease may have]
    #[arg(long, value_name = "TIME", value_parser = wait, allow_negative_numbers = true)]
    wait: Option<Duration>,
}

pub fn backup(args: &BackupArgs) -> Outcome {
    let BackupArgs { file, verify, data, overwrite, server } = args;
    if *verify {
        print(&about(file, &read(file)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !overwrite && file.exists() {
        let message = format!("{} exists; name another file, or add --overwrite", name::path(file));
        return Err(Failure::bad_input(message));
    }
    let mut part = Unfinished::new(file)?;
    match data {
        Some(data) => {
            let cannot = |error| failed(format!("cannot open the data folder {}: {error}", name::path(data)));
            let stopped = block_on(async { read_stopped(data).await.map_err(cannot) })?;
            write(stopped.about, &stopped.state, |piece| part.add(&piece))?;
        }
        None => block_on(async {
            let mut backup = server.connect().await?.backup().await.map_err(refused)?;
            while let Some(bytes) = backup.next().await.map_err(refused)? {
                part.add(&bytes)?;
            }
            Ok(())
        })?,
    }
    let backup = part.finish(*overwrite)?;
    print(&format!("{}restore it with: baton restore {} --data DIR\n", about(file, &backup), name::path(file)))?;
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &RestoreArgs) -> Outcome {
    let RestoreArgs { file, data, fence_from, wait } = args;
    let backup = read(file)?;
    let anew = Anew { fence_from: *fence_from, wait_ms: wait.map(in_ms) };
    let restored = raft::restore(data, &backup, anew).map_err(|error| match error {
        raft::RestoreError::Refused(why) => Failure::bad_input(why),
        raft::RestoreError::Failed(_) => failed(format!("cannot restore into {}: {error}", name::path(data))),
    })?;
    let (sessions, _) = backup.counts();
    let waits = match restored.closed_ms {
        0 => "locks are granted at once: stop all holders of before first".to_owned(),
        ms => format!(
            "nothing is granted for {} after the first start, until all leases of before have ended",
            duration(ms)
        ),
    };
    let data = name::path(data);
    print(&format!(
        "restored {} into {data}\n\
         cluster  {} (new; the backup is of {})\n\
         fences   go on from {}; the last one in the backup is {}\n\
         ended    {} of the backup\n\
         wait     {waits}\n\
         Stop all servers of the old cluster for good: no wait replaces that.\n\
         Tell clients that name the old cluster (--cluster-id, BATON_CLUSTER) the new id.\n\
         next: baton serve --data {data}\n",
        name::path(file),
        restored.cluster,
        backup.about.cluster,
        restored.fence_from,
        backup.last_fence(),
        counted(sessions as u64, "session", "sessions"),
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Backup, Failure> {
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    let unsound = |error| Failure::bad_input(format!("cannot use the backup {}: {error}", name::path(file)));
    Backup::read(BufReader::new(opened)).map_err(unsound)
}

fn about(file: &Path, backup: &Backup) -> String {
    let about = backup.about;
    let (sessions, locks) = backup.counts();
    format!(
        "{}: {}, made {} ago\ncluster {}, up to entry {} of term {}; {}, {} in use, last fence {}\n",
        name::path(file),
        size(backup.bytes),
        ago(about.made_ms),
        about.cluster,
        about.index,
        about.term,
        counted(sessions as u64, "session", "sessions"),
        counted(locks as u64, "lock", "locks"),
        backup.last_fence(),
    )
}

/// The file until it is complete and checked. It has another name, and is removed if the command fails.
struct Unfinished<'a> {
    path: &'a Path,
    part: NamedTempFile,
}

impl<'a> Unfinished<'a> {
    fn new(path: &'a Path) -> Result<Self, Failure> {
        let part = tempfile::Builder::new().prefix(".baton-backup-").tempfile_in(folder(path));
        Ok(Unfinished { path, part: part.map_err(|error| unwritable(path, &without_path(&error)))? })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.part.write_all(bytes).map_err(|error| unwritable(self.path, &without_path(&error)))
    }

    /// Syncs the file, reads all of it again, and gives it its name.
    fn finish(self, overwrite: bool) -> Result<Backup, Failure> {
        let Unfinished { path, part } = self;
        let failed = |error: &io::Error| unwritable(path, error);
        part.as_file().sync_all().map_err(|error| failed(&error))?;
        let backup = read(part.path())?;
        let named = match overwrite {
            true => part.persist(path),
            false => part.persist_noclobber(path),
        };
        named.map_err(|error| failed(&error.error))?;
        let synced = File::open(folder(path)).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed(&error))?;
        Ok(backup)
    }
}

/// The error of a temporary file without its path, which the user does not know.
fn without_path(error: &io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or_default().to_owned())
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(message: String) -> Failure {
    Failure { message, status: ExitCode::FAILURE }
}

fn refused(error: CallError) -> Failure {
    match error {
        CallError::Refused(Refusal { code: RefusalCode::Unsupported, .. }) => {
            failed("the server is older than this command, and makes no backups".to_owned())
        }
        error => no_server(error),
    }
}
