//! The gRPC method of the feed.

use std::pin::Pin;
use std::sync::Arc;

use baton_api::convert::{from_watch, told_to_wire};
use baton_api::v1;
use baton_api::v1::feed_server::Feed;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::host::{Host, WatchError};
use crate::readers::Refusal;
use crate::replica::Replica;

pub struct GrpcFeed<R: Replica>(Arc<Host<R>>);

impl<R: Replica> GrpcFeed<R> {
    pub fn new(host: Arc<Host<R>>) -> Self {
        GrpcFeed(host)
    }
}

#[tonic::async_trait]
impl<R: Replica> Feed for GrpcFeed<R> {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let watch = from_watch(request.into_inner()).map_err(Status::invalid_argument)?;
        let reader = self.0.watch(watch).await.map_err(|why| refused(&why))?;
        let told = futures::stream::unfold(reader, |mut reader| async move {
            let told = reader.next().await?;
            Some((told.map(told_to_wire).map_err(|why| refused(&why)), reader))
        });
        Ok(Response::new(Box::pin(told)))
    }
}

fn refused(why: &WatchError) -> Status {
    let sentence = why.to_string();
    match why {
        WatchError::Refused(Refusal::Prefix { .. }) => Status::invalid_argument(sentence),
        WatchError::Refused(Refusal::NotKept) | WatchError::PeerGroup => Status::failed_precondition(sentence),
        WatchError::TooSlow => Status::resource_exhausted(sentence),
        WatchError::Future { .. } => Status::out_of_range(sentence),
        // Another server may take the reader, or this one later.
        WatchError::Refused(Refusal::TooMany) | WatchError::TooManyListings | WatchError::Stopping => {
            Status::unavailable(sentence)
        }
    }
}
