//! The source of views: one process that decides who is a member. It hears of crashes, and never crashes.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::message::{Message, View};
use crate::broken::views::Mistake;
use crate::{Fence, Picture, ProcessId, ProcessSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    view: View,
    /// For each client: all its sessions up to this one are over.
    ended: Vec<u64>,
    suspected: ProcessSet,
    /// JOINs of suspected clients. A client that has returned may send JOIN before the detector reports its return.
    joins: BTreeMap<ProcessId, u64>,
    mistake: Option<Mistake>,
}

impl Source {
    /// All clients are members of view 1, in their first session.
    pub fn new(clients: usize, mistake: Option<Mistake>) -> Self {
        let view = View { epoch: 1, members: (0..clients).map(|client| (client, 1)).collect() };
        let (ended, suspected) = (vec![0; clients], ProcessSet::none(clients));
        Source { view, ended, suspected, joins: BTreeMap::new(), mistake }
    }

    /// A client has crashed: its session is over.
    pub fn on_suspect(&mut self, client: ProcessId) -> Option<View> {
        self.suspected.insert(client);
        let session = self.session(client)?;
        self.end(client, session)
    }

    pub fn on_trust(&mut self, client: ProcessId) -> Option<View> {
        self.suspected.remove(client);
        let session = self.joins.remove(&client)?;
        self.admit(client, session)
    }

    /// Returns the view that begins now, if one does.
    pub fn on_message<M>(&mut self, from: ProcessId, message: Message<M>) -> Option<View> {
        if from >= self.ended.len() {
            return None;
        }
        match message {
            Message::Out { session } => self.end(from, session),
            Message::Join { session } => self.on_join(from, session),
            Message::Renew { epoch } if epoch == self.view.epoch => self.next(self.view.members.clone()),
            _ => None,
        }
    }

    /// Ends exactly this session, and all earlier ones of the client. A later session stays in the view.
    fn end(&mut self, client: ProcessId, session: u64) -> Option<View> {
        self.ended[client] = self.ended[client].max(session);
        let of_all_lives = self.mistake == Some(Mistake::EndsById);
        let is_over = |&(member, present): &(ProcessId, u64)| member == client && (present <= session || of_all_lives);
        let over = self.view.members.iter().any(is_over);
        let members = self.view.members.iter().filter(|&member| !is_over(member)).copied();
        let members: Vec<_> = members.collect();
        if over { self.next(members) } else { None }
    }

    fn on_join(&mut self, client: ProcessId, session: u64) -> Option<View> {
        if self.suspected.contains(client) && self.mistake != Some(Mistake::AdmitsEndedSession) {
            let latest = self.joins.entry(client).or_default();
            *latest = session.max(*latest);
            return None;
        }
        self.admit(client, session)
    }

    /// A session that has ended is not admitted: the view would wait for it for ever.
    fn admit(&mut self, client: ProcessId, session: u64) -> Option<View> {
        let is_over = session <= self.ended[client] && self.mistake != Some(Mistake::AdmitsEndedSession);
        if is_over || self.session(client).is_some_and(|present| present >= session) {
            return None;
        }
        self.ended[client] = self.ended[client].max(session.saturating_sub(1));
        let others = self.view.members.iter().filter(|(member, _)| *member != client).copied();
        let mut members: Vec<_> = others.chain([(client, session)]).collect();
        members.sort_unstable();
        self.next(members)
    }

    /// None if there are no epochs left. Then the group stops at its next crash.
    fn next(&mut self, members: Vec<(ProcessId, u64)>) -> Option<View> {
        let epoch = (self.view.epoch < Fence::EPOCH_MAX).then(|| self.view.epoch + 1)?;
        self.view = View { epoch, members };
        Some(self.view.clone())
    }

    fn session(&self, client: ProcessId) -> Option<u64> {
        self.view.members.iter().find(|(member, _)| *member == client).map(|(_, session)| *session)
    }

    pub fn view(&self) -> Picture {
        Picture::new()
            .field("epoch", self.view.epoch)
            .set("members", self.view.members.iter().map(|(member, _)| *member))
            .set("suspected", self.suspected.iter())
            .numbers("joins", self.joins.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(source: &mut Source, client: ProcessId, session: u64) -> Option<View> {
        source.on_message(client, Message::<()>::Join { session })
    }

    #[test]
    fn the_end_of_a_session_leaves_the_later_session_of_the_same_client() {
        let mut source = Source::new(2, None);
        assert_eq!(join(&mut source, 1, 2), Some(View { epoch: 2, members: vec![(0, 1), (1, 2)] }));
        assert_eq!(source.on_message(1, Message::<()>::Out { session: 1 }), None);
        assert_eq!(join(&mut source, 1, 2), None, "a JOIN that arrives twice changes nothing");
        let out = source.on_message(1, Message::<()>::Out { session: 2 });
        assert_eq!(out, Some(View { epoch: 3, members: vec![(0, 1)] }));
        assert_eq!(join(&mut source, 1, 2), None, "the session has ended");
    }

    #[test]
    fn a_client_joins_when_the_detector_has_reported_its_return() {
        let mut source = Source::new(2, None);
        assert_eq!(source.on_suspect(1).unwrap().members, [(0, 1)]);
        assert_eq!(join(&mut source, 1, 2), None);
        assert_eq!(source.on_trust(1).unwrap().members, [(0, 1), (1, 2)]);
        assert_eq!(join(&mut source, 7, 2), None, "there is no such client");
    }

    #[test]
    fn a_group_without_epochs_gets_no_view() {
        let mut source = Source::new(2, None);
        source.view.epoch = Fence::EPOCH_MAX - 1;
        let renew = |source: &mut Source, epoch| source.on_message(0, Message::<()>::Renew { epoch });
        assert_eq!(renew(&mut source, 7), None, "this epoch is over");
        assert_eq!(renew(&mut source, Fence::EPOCH_MAX - 1).unwrap().epoch, Fence::EPOCH_MAX);
        assert_eq!(renew(&mut source, Fence::EPOCH_MAX), None);
    }
}
