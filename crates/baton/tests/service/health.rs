//! The health service of gRPC, for load balancers and supervisors.

use nix::sys::signal::Signal;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::raw;
use crate::server::Server;

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn a_server_says_that_it_serves_and_when_it_stops_that_it_does_not() {
    let server = Server::start();
    let mut health = HealthClient::new(raw::channel(&server).await);
    let mut watch = health.watch(about("baton.v1.Locks")).await.unwrap().into_inner();
    let mut first = watch.message().await.unwrap().unwrap();
    // The server accepts connections before it leads.
    if first.status() == ServingStatus::NotServing {
        first = watch.message().await.unwrap().unwrap();
    }
    assert_eq!(first.status(), ServingStatus::Serving);
    let check = health.check(about("baton.v1.Locks")).await.unwrap().into_inner();
    assert_eq!(check.status(), ServingStatus::Serving);
    let unknown = health.check(about("baton.v1.Other")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);

    server.signal(Signal::SIGTERM);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
}
