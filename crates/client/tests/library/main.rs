//! The library against a fake server, over real connections. Each test decides what the server answers.

mod alone;
mod connections;
mod fake;
mod guards;
mod leaders;
mod listings;
mod locks;
mod members;
mod sessions;

use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_api::v1::{self, answer, client_frame, request::Operation, server_frame};
use baton_client::{
    AcquireError, BootTime, CallError, Client, CloseError, ConnectError, Hopeless, LockState, Loss, Mode, OpenError,
    Owner, Refusal, RefusalCode, ReleaseError, Session, SessionState, views,
};
use tonic::Status;

use fake::{
    LONG, MEDIUM, SHORT, Server, Stream, by_permits, held, lock, nobody, released, silent_server, waited_for,
    with_history,
};
