//! Actions of one client on its objects, with checks of the responses.

use super::{CLIENT, NAMES, ObjectsState, OwnObject, PAIR, STEPS, differences, of_client};
use crate::history::START_MILLIS;
use crate::rng::Rng;
use crate::sim::check::Findings;
use crate::sim::client::Record;
use crate::sim::request::{ClientRequest, ClientResponse};
use esker_model::filter::{Comparison, Expr, Term, Test};
use esker_model::idempotency::ProducerKey;
use esker_model::object::{
    Find, Found, Identity, ObjectId, ObjectKey, TagChange, TagWhere, object_ref,
};
use esker_model::{Batch, ErrorKind, Op, Properties, Value, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Longest duration of a call without faults, in microseconds; more would mean a cycle of waits.
const SLOW: u64 = 4_000_000;

/// A client that works on objects.
pub(super) struct ObjectClient<'a> {
    pub(super) all: &'a Rc<ObjectsState>,
    pub(super) client: usize,
    pub(super) seen: Version,
    /// Number of own names used so far.
    pub(super) steps: i64,
    /// Number of changing calls so far.
    pub(super) number: u64,
}

impl ObjectClient<'_> {
    pub(super) async fn step(&mut self, rng: &mut Rng) {
        match rng.number_below(100) {
            0..30 => self.create(rng).await,
            30..42 => self.tag(rng).await,
            42..57 => self.rename(rng).await,
            57..67 => self.delete(rng).await,
            67..75 => self.tag_where(rng).await,
            75..88 => self.look_up(rng).await,
            _ => self.search(rng).await,
        }
    }

    async fn call(&mut self, rng: &mut Rng, request: ClientRequest) -> Record {
        let record = self
            .all
            .clients
            .call_until_answered(self.client, rng, request, self.seen)
            .await;
        self.all.records.set(self.all.records.get() + 1);
        let took = record.end - record.begin;
        if self.all.faultless && took > SLOW {
            self.all
                .finding(format!("{took} us for {:?}", record.request));
        }
        if let Ok(response) = &record.response {
            self.seen = self.seen.max(response.newest());
        }
        record
    }

    /// Idempotency key of the next call; all earlier calls have been answered.
    fn idempotency_key(&mut self) -> Vec<u8> {
        self.number += 1;
        let numbered = ProducerKey {
            producer: [self.client as u8 + 1; 16],
            sequence: self.number,
            settled_below: self.number,
            created_millis: START_MILLIS,
        };
        numbered.encode()
    }

    async fn apply(&mut self, rng: &mut Rng, ops: Vec<Op>) -> (bool, u64, u64) {
        let mut batch = Batch::new();
        for op in ops {
            batch.push(op);
        }
        batch.idempotency_key = Some(self.idempotency_key());
        let record = self.call(rng, ClientRequest::Apply(batch)).await;
        if let Err(e) = &record.response
            && e.kind != ErrorKind::Invalid
        {
            self.all.finding(format!("client {}: {e:?}", self.client));
        }
        if record.response.is_ok() {
            self.all.applied.set(self.all.applied.get() + 1);
        }
        (record.response.is_ok(), record.begin, record.end)
    }

    /// ID attributes: the client's own, or those that all clients want.
    fn identity(&mut self, rng: &mut Rng) -> Identity {
        if rng.percent(40) {
            self.steps += 1;
            return Identity {
                name: format!("own{}", self.client),
                app: String::new(),
                owner: self.client as i64,
                step: self.steps,
            };
        }
        Identity {
            name: format!("shared{}", rng.number_below(NAMES)),
            app: "sim".into(),
            owner: 7,
            step: rng.number_below(STEPS) as i64,
        }
    }

    fn mine(&self) -> Vec<(ObjectId, OwnObject)> {
        let mine = self.all.mine.borrow();
        let mine = mine.get(self.client).into_iter().flatten();
        mine.map(|(id, mine)| (*id, mine.clone())).collect()
    }

    fn with_mine<T>(&self, f: impl FnOnce(&mut BTreeMap<ObjectId, OwnObject>) -> T) -> T {
        f(&mut self.all.mine.borrow_mut()[self.client])
    }

    async fn create(&mut self, rng: &mut Rng) {
        let mut objects = BTreeMap::<Identity, Properties>::new();
        for _ in 0..=rng.number_below(4) {
            let tags = Properties::new()
                .with(CLIENT, self.client as i64)
                .with("color", rng.number_below(3) as i64);
            objects.insert(self.identity(rng), tags);
        }
        let ops = objects.iter().map(|(identity, tags)| Op::CreateObject {
            identity: identity.clone(),
            attributes: Properties::new(),
            tags: tags.clone(),
        });
        let ops = ops.collect();
        let identities: Vec<Identity> = objects.keys().cloned().collect();
        let (done, begin, end) = self.apply(rng, ops).await;
        if !done {
            let refusal = (identities, begin, end);
            self.all.refusals.borrow_mut().push(refusal);
            return;
        }
        for identity in &identities {
            self.all.record_acquired(self.client, identity, begin);
        }
        let keys = identities.iter().cloned().map(ObjectKey::from).collect();
        let record = self.call(rng, ClientRequest::Objects(keys)).await;
        let Ok(ClientResponse::Objects(found)) = record.response else {
            self.all
                .finding(format!("client {}: {:?}", self.client, record.response));
            return;
        };
        for ((identity, tags), found) in objects.into_iter().zip(found) {
            let Some(found) = found else {
                self.all.finding(format!(
                    "client {} was told that it has {identity}, and it is not there",
                    self.client
                ));
                continue;
            };
            if found.tags != tags || found.identity().as_ref() != Some(&identity) {
                self.all
                    .finding(format!("created {identity} with {tags:?}, found {found:?}"));
            }
            self.with_mine(|mine| mine.insert(found.id, OwnObject { identity, tags }));
        }
    }

    async fn tag(&mut self, rng: &mut Rng) {
        let mine = self.mine();
        if mine.is_empty() {
            return;
        }
        let number = self.all.clients.number() as i64;
        let set = Properties::new().with(PAIR, number);
        let chosen: BTreeSet<ObjectId> = (0..=rng.number_below(4))
            .map(|_| rng.pick(&mine).0)
            .collect();
        let ops = chosen.iter().filter_map(|id| {
            Some(Op::SetAttributes {
                vertex: object_ref(&self.all.schema, *id)?,
                set: set.clone(),
                remove: Vec::new(),
            })
        });
        let (done, ..) = self.apply(rng, ops.collect()).await;
        if !done {
            self.all.finding(format!(
                "client {} may not tag its own objects",
                self.client
            ));
            return;
        }
        self.with_mine(|mine| {
            for id in chosen {
                if let Some(mine) = mine.get_mut(&id) {
                    mine.tags.set(PAIR, number);
                }
            }
        });
    }

    async fn rename(&mut self, rng: &mut Rng) {
        let mine = self.mine();
        if mine.is_empty() {
            return;
        }
        let (object, OwnObject { identity: from, .. }) = rng.pick(&mine).clone();
        let to = self.identity(rng);
        if to == from {
            return;
        }
        self.all.set_certain(self.client, &from, false);
        let op = Op::MoveObject {
            object,
            from: from.clone(),
            to: to.clone(),
        };
        let (done, begin, end) = self.apply(rng, vec![op]).await;
        if !done {
            self.all.set_certain(self.client, &from, true);
            self.all.refusals.borrow_mut().push((vec![to], begin, end));
            return;
        }
        self.all.record_released(self.client, &from);
        self.all.record_acquired(self.client, &to, begin);
        self.with_mine(|mine| {
            if let Some(mine) = mine.get_mut(&object) {
                mine.identity = to;
            }
        });
    }

    async fn delete(&mut self, rng: &mut Rng) {
        let mine = self.mine();
        if mine.is_empty() {
            return;
        }
        let (object, OwnObject { identity, .. }) = rng.pick(&mine).clone();
        let Some(vertex) = object_ref(&self.all.schema, object) else {
            return;
        };
        self.all.set_certain(self.client, &identity, false);
        let (done, ..) = self.apply(rng, vec![Op::DeleteVertex { vertex }]).await;
        if !done {
            self.all.finding(format!(
                "client {} may not delete object {object}",
                self.client
            ));
            return;
        }
        self.all.record_released(self.client, &identity);
        self.with_mine(|mine| mine.remove(&object));
    }

    /// Tags all of the client's objects of a colour, on all servers.
    async fn tag_where(&mut self, rng: &mut Rng) {
        let color = Value::I64(rng.number_below(3) as i64);
        let number = self.all.clients.number();
        let set = Properties::new().with("group", number as i64);
        let has = Expr::Term(Term {
            name: "color".into(),
            test: Test::Compare(Comparison::Eq, color.clone()),
        });
        let change = TagWhere {
            filter: Expr::And(vec![of_client(self.client), has]),
            change: TagChange {
                set,
                keep: false,
                remove: vec![PAIR.into()],
            },
            principal: None,
            dry_run: false,
            idempotency_key: Some(self.idempotency_key()),
        };
        let record = self.call(rng, ClientRequest::TagWhere(change)).await;
        let Ok(ClientResponse::Tagged(report)) = record.response else {
            self.all
                .finding(format!("client {}: {:?}", self.client, record.response));
            return;
        };
        let changed = self.with_mine(|mine| {
            let mut changed = 0;
            for mine in mine
                .values_mut()
                .filter(|m| m.tags.get("color") == Some(&color))
            {
                mine.tags.set("group", number as i64);
                mine.tags.remove(PAIR);
                changed += 1;
            }
            changed
        });
        // A repeated call does not count what was done before.
        if record.attempts == 1 && self.all.faultless && report.changed != changed {
            self.all
                .finding(format!("{} objects tagged, not {changed}", report.changed));
        }
    }

    /// Looks up some of the client's objects by number or by ID attributes.
    async fn look_up(&mut self, rng: &mut Rng) {
        let mine = self.mine();
        if mine.is_empty() {
            return;
        }
        let chosen: Vec<(ObjectId, OwnObject)> = (0..=rng.number_below(6))
            .map(|_| rng.pick(&mine).clone())
            .collect();
        let by_name = rng.percent(60);
        let key = |(id, mine): &(ObjectId, OwnObject)| {
            if by_name {
                ObjectKey::from(mine.identity.clone())
            } else {
                ObjectKey::from(*id)
            }
        };
        let record = self
            .call(
                rng,
                ClientRequest::Objects(chosen.iter().map(key).collect()),
            )
            .await;
        let Ok(ClientResponse::Objects(found)) = record.response else {
            self.all
                .finding(format!("client {}: {:?}", self.client, record.response));
            return;
        };
        for ((id, mine), found) in chosen.iter().zip(&found) {
            let right = found.as_ref().is_some_and(|found| {
                found.id == *id
                    && found.tags == mine.tags
                    && found.identity().as_ref() == Some(&mine.identity)
            });
            if !right {
                self.all
                    .finding(format!("looked up {id}: {found:?}, not {mine:?}"));
            }
        }
    }

    /// Searches the client's objects, or all objects; with a limit, page by page.
    async fn search(&mut self, rng: &mut Rng) {
        let own = rng.percent(50);
        let limit = rng.percent(40).then(|| 1 + rng.number_below(4) as u64);
        let mut find = Find {
            limit,
            ..Find::all(if own {
                of_client(self.client)
            } else {
                Expr::All
            })
        };
        let mut all: Vec<Found> = Vec::new();
        let mut missing = BTreeSet::new();
        let resizes = self.all.clients.cluster.resizes();
        loop {
            let record = self.call(rng, ClientRequest::Find(find.clone())).await;
            let Ok(ClientResponse::Found(found, report)) = record.response else {
                self.all
                    .finding(format!("client {}: {:?}", self.client, record.response));
                return;
            };
            if limit.is_some_and(|limit| found.len() as u64 > limit) {
                self.all
                    .finding(format!("{} found, limit {limit:?}", found.len()));
            }
            missing.extend(report.missing.iter().copied());
            let enough = found.is_empty() || limit.is_none();
            if limit.is_none() && report.complete != report.missing.is_empty() {
                self.all
                    .finding(format!("a search without a limit: {report:?}"));
            }
            find.after = found.last().map(|f| f.id);
            all.extend(found);
            if enough {
                break;
            }
        }
        if self.all.clients.cluster.resizes() != resizes {
            // Objects have another order then, so a search that continues from one of them must begin again.
            return;
        }
        let client = Value::I64(self.client as i64);
        all.retain(|f| f.tags.get(CLIENT) == Some(&client));
        let mut findings = Findings::new();
        let mut known: BTreeMap<ObjectId, OwnObject> = self.mine().into_iter().collect();
        let map = self.all.clients.cluster.map();
        known.retain(|id, _| {
            let home = map.as_ref().and_then(|map| map.home(id.vertex()));
            home.is_some_and(|home| !missing.contains(&home.0))
        });
        all.retain(|f| known.contains_key(&f.id) || missing.is_empty());
        differences(
            &known,
            &all,
            &format!("client {} searches", self.client),
            &mut findings,
        );
        for finding in findings {
            self.all.finding(finding);
        }
    }
}
