//! A client of etcd's own locks (service v3lock), so that both services are measured by the same loops. Only the few
//! messages that this needs are declared here, with etcd's field numbers.

use std::error::Error;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

/// Longer than any measurement, so that no keep-alive is needed.
const TTL_S: i64 = 600;

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockResponse {}

/// A connection and a lease.
#[derive(Clone)]
pub struct Etcd {
    grpc: Grpc<Channel>,
    lease: i64,
}

impl Etcd {
    pub async fn open(server: &str) -> Result<Etcd, Box<dyn Error>> {
        let channel = Channel::from_shared(format!("http://{server}"))?.tcp_nodelay(true).connect().await?;
        let mut etcd = Etcd { grpc: Grpc::new(channel), lease: 0 };
        let request = LeaseGrantRequest { ttl: TTL_S };
        let granted: LeaseGrantResponse = etcd.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        etcd.lease = granted.id;
        Ok(etcd)
    }

    pub async fn pair(&mut self, lock: &str) -> Result<(), Box<dyn Error>> {
        let request = LockRequest { name: lock.into(), lease: self.lease };
        let LockResponse { key } = self.call("/v3lockpb.Lock/Lock", request).await?;
        let UnlockResponse {} = self.call("/v3lockpb.Lock/Unlock", UnlockRequest { key }).await?;
        Ok(())
    }

    async fn call<Q, A>(&mut self, method: &'static str, request: Q) -> Result<A, Box<dyn Error>>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.grpc.ready().await?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answer = self.grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(method), codec).await?;
        Ok(answer.into_inner())
    }
}
