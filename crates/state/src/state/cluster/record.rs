//! The cluster as a record, for snapshots.

use serde::{Deserialize, Serialize};

use super::{Cluster, Secret};

/// Of data format 3. A cluster that has none of this has no record, so older nodes can read its snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    Cluster {
        secret: Option<Secret>,
        max_ttl_ms: u64,
        /// How long the cluster still grants nothing; 0 if it is open.
        closed_ms: u64,
    },
}

impl Cluster {
    pub(in crate::state) fn record(&self) -> Option<Record> {
        let Cluster { secret, max_ttl_ms, closed_ms } = self.clone();
        (*self != Cluster::default()).then_some(Record::Cluster { secret, max_ttl_ms, closed_ms })
    }
}

impl From<Record> for Cluster {
    fn from(Record::Cluster { secret, max_ttl_ms, closed_ms }: Record) -> Self {
        Cluster { secret, max_ttl_ms, closed_ms }
    }
}
