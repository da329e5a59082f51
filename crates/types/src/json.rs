//! How the public types look in JSON, where that is not what serde would make of them: ids as hexadecimal digits, names
//! as text, and nothing where a server has nothing to say.

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::hex::Hex;
use crate::locks::Mode;
use crate::name;
use crate::views::{Group, HowEnded, Member, Session, Status};

pub fn hex<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    Hex(*id).serialize(serializer)
}

pub fn none_if_empty<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    unless_empty(text).serialize(serializer)
}

/// The name of a lock, as fields of the object that is named: `name`, and `escaped` if the name is not UTF-8.
pub fn name<S: Serializer>(name: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let (text, escaped) = name::shown(name);
    let mut object = serializer.serialize_map(None)?;
    object.serialize_entry("name", &text)?;
    if escaped {
        object.serialize_entry("escaped", &true)?;
    }
    object.end()
}

fn unless_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Serialize for HowEnded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Serialize for Session {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Session { id, label, host, pid, ttl_ms, expires_in_ms, holds, waits } = self;
        // All names are in the same form, so that one flag tells the form.
        let escaped = holds.iter().chain(waits).any(|name| str::from_utf8(name).is_err());
        let shown = |name: &Vec<u8>| if escaped { name::escaped(name) } else { name::shown(name).0 };
        let mut object = serializer.serialize_struct("Session", 9)?;
        object.serialize_field("id", &Hex(*id))?;
        object.serialize_field("label", label)?;
        object.serialize_field("host", host)?;
        object.serialize_field("pid", pid)?;
        object.serialize_field("ttl_ms", ttl_ms)?;
        object.serialize_field("expires_in_ms", expires_in_ms)?;
        if escaped {
            object.serialize_field("escaped", &true)?;
        }
        object.serialize_field("holds", &holds.iter().map(shown).collect::<Vec<_>>())?;
        object.serialize_field("waits", &waits.iter().map(shown).collect::<Vec<_>>())?;
        object.end()
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Status { node, name, role, term, commit, applied, locks, sessions, waiters, .. } = self;
        let Status { uptime_ms, version, free_bytes, low_space, group, cluster, cluster_id, .. } = self;
        let Status { address_remark, closed_ms, max_ttl_ms, .. } = self;
        let mut object = serializer.serialize_struct("Status", 21)?;
        if let Some(id) = cluster_id {
            object.serialize_field("cluster_id", &id.to_string())?;
        }
        object.serialize_field("node", node)?;
        for (field, text) in [("name", name), ("address_remark", address_remark)] {
            if let Some(text) = unless_empty(text) {
                object.serialize_field(field, text)?;
            }
        }
        for (field, ms) in [("closed_ms", closed_ms), ("max_ttl_ms", max_ttl_ms)] {
            if *ms > 0 {
                object.serialize_field(field, ms)?;
            }
        }
        object.serialize_field("role", role)?;
        if let Some(confirmed) = self.confirmed() {
            object.serialize_field("confirmed", &confirmed)?;
        }
        for (field, number) in [("term", term), ("commit", commit), ("applied", applied)] {
            object.serialize_field(field, number)?;
        }
        for (field, number) in
            [("locks", locks), ("sessions", sessions), ("waiters", waiters), ("uptime_ms", uptime_ms)]
        {
            object.serialize_field(field, number)?;
        }
        object.serialize_field("version", version)?;
        object.serialize_field("free_bytes", free_bytes)?;
        object.serialize_field("low_space", low_space)?;
        if let Some(group) = group {
            object.serialize_field("group", group)?;
        }
        if let Some(cluster) = cluster {
            object.serialize_field("cluster", cluster)?;
        }
        object.end()
    }
}

impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Member", 19)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("voter", &self.is_voter)?;
        object.serialize_field("address", &self.client_address)?;
        object.serialize_field("peer_address", &self.peer_address)?;
        if self.answers() {
            object.serialize_field("role", &self.role)?;
            object.serialize_field("term", &self.term)?;
            object.serialize_field("last_log", &self.last_log)?;
            object.serialize_field("commit", &self.commit)?;
            object.serialize_field("applied", &self.applied)?;
            object.serialize_field("leader", &self.leader)?;
            object.serialize_field("voted_for", &self.voted_for)?;
        }
        object.serialize_field("lag", &self.lag)?;
        object.serialize_field("heard_ms_ago", &self.heard_ms_ago)?;
        object.serialize_field("error", &unless_empty(&self.error))?;
        object.serialize_field("remark", &unless_empty(&self.remark))?;
        object.serialize_field("sync_ms", &self.sync_ms)?;
        object.serialize_field("free_bytes", &self.free_bytes)?;
        object.serialize_field("low_space", &self.low_space)?;
        object.end()
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Group { algorithm, variant, member, members, serves, names, names_max, peers } = self;
        let mut object = serializer.serialize_struct("Group", 8)?;
        object.serialize_field("algorithm", algorithm)?;
        object.serialize_field("variant", variant)?;
        object.serialize_field("member", member)?;
        object.serialize_field("members", members)?;
        object.serialize_field("serves", serves)?;
        // An older member does not tell them.
        if *names_max > 0 {
            object.serialize_field("names", names)?;
            object.serialize_field("names_max", names_max)?;
        }
        object.serialize_field("peers", peers)?;
        object.end()
    }
}
