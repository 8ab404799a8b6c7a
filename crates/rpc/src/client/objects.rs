//! Objects over the network.

use super::graph::{LONG, SHORT, cancellable, expected, extend};
use super::{CallError, Client};
use crate::convert;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::object::{
    Find, FindReport, Found, ObjectKey, ObjectRead, ObjectWrite, Principal, TagInfo, TagReport,
    TagWhere,
};
use esker_model::resume::FindResume;
use esker_model::{Cancel, Flow, Result};
use std::ops::ControlFlow;

impl ObjectRead for Client {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
    ) -> Result<Vec<Option<Found>>> {
        let call = Call::ReadObjects(proto::ReadObjectsRequest {
            keys: keys.iter().map(convert::object_key_out).collect(),
            principal: convert::principal_out(principal),
        });
        let all: Vec<_> = self.collect(call, SHORT, |all, reply| {
            expected!(reply, ReadObjects, piece => extend(all, piece.items, |item| {
                item.object.map(convert::found_in).transpose()
            }))
        })?;
        self.check_count(all, keys.len())
    }

    /// If the connection is lost, the search continues after the last object that the sink received. The report of a
    /// search that
    /// its sink ended covers only those objects.
    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        let mut resume = FindResume::new(find);
        self.run(Some(cancel), |connection| {
            let request = proto::Request {
                call: Some(Call::Find(convert::find_out(resume.rest()))),
            };
            let (mut report, mut ended) = (None, false);
            self.exchange(connection, &request, cancellable(cancel), &mut |reply| {
                let Reply::Find(piece) = reply else {
                    return Err(self.wrong_reply());
                };
                for object in piece.objects {
                    if resume.pass(convert::found_in(object)?, sink).is_break() {
                        ended = true;
                        return Ok(ControlFlow::Break(()));
                    }
                }
                report = report.take().or(piece.report);
                Ok(ControlFlow::Continue(()))
            })?;
            match report {
                Some(report) => Ok(resume.report(convert::report_in(report))),
                None if ended => Ok(resume.broken_off()),
                None => Err(CallError::Failed(self.wrong_reply())),
            }
        })
    }

    fn tags(&self, principal: Option<&Principal>) -> Result<Vec<TagInfo>> {
        let call = Call::Tags(proto::TagsRequest {
            principal: convert::principal_out(principal),
        });
        self.collect(call, LONG, |all, reply| {
            expected!(reply, Tags, piece => extend(all, piece.tags, convert::tag_info_in))
        })
    }
}

impl ObjectWrite for Client {
    fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport> {
        self.tag_where_with(change, false, cancel)
    }

    fn set_index(&self, name: &str, on: bool) -> Result<bool> {
        let name = name.to_owned();
        let call = Call::SetIndex(proto::SetIndexRequest { name, on });
        self.value(call, LONG, |reply| {
            Ok(expected!(reply, SetIndex, reply => Some(reply.changed)))
        })
    }
}

impl Client {
    /// Changes the tags of all objects that match a filter; with `sync`, the change survives a power failure before
    /// this returns. A
    /// change without an idempotency key gets one, so that it is applied once however often it is sent.
    pub fn tag_where_with(
        &self,
        change: &TagWhere,
        sync: bool,
        cancel: &dyn Cancel,
    ) -> Result<TagReport> {
        let mut request = convert::tag_where_out(change, sync);
        let number = if change.idempotency_key.is_none() && !change.dry_run {
            let number = self.shared.producer.next(self.server_millis())?;
            request.idempotency_key = number.idempotency_key();
            Some(number)
        } else {
            None
        };
        let answer = self.value(Call::TagWhere(request), cancellable(cancel), |reply| {
            Ok(expected!(reply, TagWhere, reply => Some(convert::tag_report_in(reply))))
        });
        // A caller that gets an error may repeat the change; this one must not be applied later as well.
        if let Some(number) = number {
            number.settle();
        }
        let report = answer?;
        self.record_version(report.version);
        Ok(report)
    }
}
