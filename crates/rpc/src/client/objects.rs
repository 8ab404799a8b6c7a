//! Objects over the wire.

use super::graph::{LONG, SHORT, cancellable, expected, extend};
use super::{Broken, Client};
use crate::convert;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use crate::resume::FindResume;
use esker_model::object::{
    Asker, Find, FindReport, Found, ObjectKey, ObjectRead, ObjectWrite, TagInfo, TagReport,
    TagWhere,
};
use esker_model::{Cancel, Flow, Result};
use std::ops::ControlFlow;

impl ObjectRead for Client {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        asker: Option<&Asker>,
    ) -> Result<Vec<Option<Found>>> {
        let call = Call::ReadObjects(proto::ReadObjectsRequest {
            keys: keys.iter().map(convert::object_key_out).collect(),
            asker: convert::asker_out(asker),
        });
        let all: Vec<_> = self.collect(call, SHORT, |all, reply| {
            expected!(reply, ReadObjects, piece => extend(all, piece.items, |item| {
                item.object.map(convert::found_in).transpose()
            }))
        })?;
        self.whole(all, keys.len())
    }

    /// If the connection goes away in the middle, the search goes on behind the last object that the sink got. The report
    /// of a search that its sink ended says how much that was, and no more.
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
                    return Err(self.stray());
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
                None => Err(Broken::Failed(self.stray())),
            }
        })
    }

    fn tags(&self, asker: Option<&Asker>) -> Result<Vec<TagInfo>> {
        let call = Call::Tags(proto::TagsRequest {
            asker: convert::asker_out(asker),
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
    /// Changes the tags of all objects that a filter holds of; with `sync`, the change survives a power failure before this
    /// returns. What has no marker of its own gets one, so that it counts once however often it is sent.
    pub fn tag_where_with(
        &self,
        change: &TagWhere,
        sync: bool,
        cancel: &dyn Cancel,
    ) -> Result<TagReport> {
        let mut request = convert::tag_where_out(change, sync);
        let number = if change.once.is_none() && !change.dry_run {
            let number = self.shared.sender.next(self.server_millis())?;
            request.once = number.marker();
            Some(number)
        } else {
            None
        };
        let answer = self.value(Call::TagWhere(request), cancellable(cancel), |reply| {
            Ok(expected!(reply, TagWhere, reply => Some(convert::tag_report_in(reply))))
        });
        // Whoever is told that it failed may do it anew, and must not find this one done too later.
        if let Some(number) = number {
            number.settle();
        }
        let report = answer?;
        self.saw(report.version);
        Ok(report)
    }
}
