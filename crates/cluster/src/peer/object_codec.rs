//! Binary encoding of requests and responses about objects. Pages of a search are large; this encoding is written and
//! read several times faster than protobuf messages.

use super::codec::{put_identity, take_identity, take_object};
use super::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply};
use crate::vnode::ServerId;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u32, put_u64, put_varint};
use esker_model::filter::Expr;
use esker_model::object::{
    Find, FindReport, Found, ObjectId, ObjectKey, PlanStep, Principal, Share, TagChange, TagInfo,
    TagReport, TagWhere,
};
use esker_model::{Properties, Version};

impl ObjectCall {
    /// Encodes the request as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Read {
                keys,
                principal,
                at,
            } => {
                out.push(0);
                put_u64(&mut out, at.0);
                put_option(&mut out, principal.as_ref(), put_principal);
                put_list(&mut out, keys, put_key);
            }
            Self::Find { id, find, at } => {
                out.push(1);
                put_id(&mut out, *id);
                put_u64(&mut out, at.0);
                put_find(&mut out, find);
            }
            Self::Stop { id } => {
                out.push(2);
                put_id(&mut out, *id);
            }
            Self::Tags { principal, at } => {
                out.push(3);
                put_u64(&mut out, at.0);
                put_option(&mut out, principal.as_ref(), put_principal);
            }
            Self::Tag { change, at } => {
                out.push(4);
                put_u64(&mut out, at.0);
                put_tag_where(&mut out, change);
            }
            Self::Index { name, on } => {
                out.push(5);
                put_text(&mut out, name);
                put_bool(&mut out, *on);
            }
        }
        out
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let call = match r.u8("a kind of question")? {
            0 => {
                let at = Version(r.u64("a version")?);
                Self::Read {
                    principal: take_option(&mut r, take_principal)?,
                    keys: take_list(&mut r, 9, take_key)?,
                    at,
                }
            }
            1 => Self::Find {
                id: take_id(&mut r)?,
                at: Version(r.u64("a version")?),
                find: take_find(&mut r)?,
            },
            2 => Self::Stop {
                id: take_id(&mut r)?,
            },
            3 => Self::Tags {
                at: Version(r.u64("a version")?),
                principal: take_option(&mut r, take_principal)?,
            },
            4 => Self::Tag {
                at: Version(r.u64("a version")?),
                change: take_tag_where(&mut r)?,
            },
            5 => Self::Index {
                name: take_text(&mut r)?,
                on: take_bool(&mut r)?,
            },
            _ => return Err(r.error("a kind of question (0 to 5)")),
        };
        r.finish()?;
        Ok(call)
    }
}

impl ObjectReply {
    /// Encodes the response as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Objects(objects) => {
                out.push(0);
                put_list(&mut out, objects, |out, at| match at {
                    ObjectAt::Nowhere => out.push(0),
                    ObjectAt::Here(found) => {
                        out.push(1);
                        put_found(out, found);
                    }
                    ObjectAt::Elsewhere(id) => {
                        out.push(2);
                        put_u64(out, id.0);
                    }
                });
            }
            Self::Found(page) => {
                out.push(1);
                put_list(&mut out, &page.objects, put_found);
                put_bool(&mut out, page.more);
                put_report(&mut out, &page.report);
            }
            Self::Stopped => out.push(2),
            Self::Tags(tags) => {
                out.push(3);
                put_list(&mut out, tags, put_tag_info);
            }
            Self::Tagged(report) => {
                out.push(4);
                for n in [report.matches, report.changed, report.refused] {
                    put_u64(&mut out, n);
                }
                put_u64(&mut out, report.version.0);
                out.push(u8::from(report.applied));
            }
            Self::Indexed(changed) => {
                out.push(5);
                put_bool(&mut out, *changed);
            }
        }
        out
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let reply = match r.u8("a kind of answer")? {
            0 => Self::Objects(take_list(&mut r, 1, |r| {
                Ok(match r.u8("where an object is")? {
                    0 => ObjectAt::Nowhere,
                    1 => ObjectAt::Here(take_found(r)?),
                    2 => ObjectAt::Elsewhere(take_object(r)?),
                    _ => return Err(r.error("where an object is (0 to 2)")),
                })
            })?),
            1 => Self::Found(FindPage {
                objects: take_list(&mut r, FOUND_MIN, take_found)?,
                more: take_bool(&mut r)?,
                report: take_report(&mut r)?,
            }),
            2 => Self::Stopped,
            3 => Self::Tags(take_list(&mut r, 20, take_tag_info)?),
            4 => Self::Tagged(TagReport {
                matches: r.u64("a number of objects")?,
                changed: r.u64("a number of objects")?,
                refused: r.u64("a number of objects")?,
                version: Version(r.u64("a version")?),
                applied: take_bool(&mut r)?,
            }),
            5 => Self::Indexed(take_bool(&mut r)?),
            _ => return Err(r.error("a kind of answer (0 to 5)")),
        };
        r.finish()?;
        Ok(reply)
    }
}

/// Smallest encoding of a found object, in bytes.
const FOUND_MIN: usize = 26;

fn put_found(out: &mut Vec<u8>, found: &Found) {
    put_u64(out, found.id.0);
    put_u64(out, found.created.0);
    put_u64(out, found.modified.0);
    found.attributes.encode(out);
    found.tags.encode(out);
}

fn take_found(r: &mut Reader<'_>) -> Result<Found, DecodeError> {
    Ok(Found {
        id: take_object(r)?,
        created: Version(r.u64("a version")?),
        modified: Version(r.u64("a version")?),
        attributes: Properties::decode(r)?,
        tags: Properties::decode(r)?,
    })
}

fn put_find(out: &mut Vec<u8>, find: &Find) {
    put_filter(out, &find.filter);
    put_option(out, find.select.as_deref(), |out, names| {
        put_list(out, names, |out, name| put_text(out, name));
    });
    put_option(out, find.limit, put_u64);
    put_bool(out, find.count);
    put_bool(out, find.explain);
    put_option(out, find.principal.as_ref(), put_principal);
    put_option(out, find.share, |out, share| {
        put_u32(out, share.rank);
        put_u32(out, share.of);
    });
    put_option(out, find.after, |out, id| put_u64(out, id.0));
}

fn take_find(r: &mut Reader<'_>) -> Result<Find, DecodeError> {
    Ok(Find {
        filter: take_filter(r)?,
        select: take_option(r, |r| take_list(r, 1, take_text))?,
        limit: take_option(r, |r| r.u64("a limit"))?,
        count: take_bool(r)?,
        explain: take_bool(r)?,
        principal: take_option(r, take_principal)?,
        share: take_option(r, |r| {
            let (rank, of) = (r.u32("a share")?, r.u32("a number of shares")?);
            if rank >= of {
                return Err(r.error("a share below the number of shares"));
            }
            Ok(Share { rank, of })
        })?,
        after: take_option(r, take_object)?,
    })
}

/// Filters are encoded as text, the form in which they are stored.
fn put_filter(out: &mut Vec<u8>, filter: &Expr) {
    put_text(out, &filter.to_string());
}

fn take_filter(r: &mut Reader<'_>) -> Result<Expr, DecodeError> {
    let text = r.str("a filter")?;
    Expr::parse(text, None).map_err(|_| r.error("a filter in the filter language"))
}

fn put_report(out: &mut Vec<u8>, report: &FindReport) {
    put_u64(out, report.matches);
    put_bool(out, report.complete);
    put_list(out, &report.missing, |out, server| put_u32(out, *server));
    put_list(out, &report.plan, |out, step| {
        put_u32(out, step.server);
        put_text(out, &step.term);
        put_text(out, &step.access);
        put_u64(out, step.estimate);
        put_option(out, step.left, put_u64);
        put_option(out, step.micros, put_u64);
    });
    put_list(out, &report.unknown, |out, (name, nearest)| {
        put_text(out, name);
        put_option(out, nearest.as_ref(), |out, (name, objects)| {
            put_text(out, name);
            put_u64(out, *objects);
        });
    });
}

fn take_report(r: &mut Reader<'_>) -> Result<FindReport, DecodeError> {
    Ok(FindReport {
        matches: r.u64("a number of objects")?,
        complete: take_bool(r)?,
        missing: take_list(r, 4, |r| r.u32("a server"))?,
        plan: take_list(r, 16, |r| {
            Ok(PlanStep {
                server: r.u32("a server")?,
                term: take_text(r)?,
                access: take_text(r)?,
                estimate: r.u64("a number of objects")?,
                left: take_option(r, |r| r.u64("a number of objects"))?,
                micros: take_option(r, |r| r.u64("microseconds"))?,
            })
        })?,
        unknown: take_list(r, 2, |r| {
            let name = take_text(r)?;
            let nearest = |r: &mut Reader<'_>| Ok((take_text(r)?, r.u64("a number of objects")?));
            Ok((name, take_option(r, nearest)?))
        })?,
    })
}

fn put_tag_info(out: &mut Vec<u8>, info: &TagInfo) {
    put_text(out, &info.name);
    put_bool(out, info.predefined);
    put_u64(out, info.objects);
    put_option(out, info.distinct, put_u64);
    put_bool(out, info.indexed);
    put_u64(out, info.bytes.0);
    put_u64(out, info.bytes.1);
}

fn take_tag_info(r: &mut Reader<'_>) -> Result<TagInfo, DecodeError> {
    Ok(TagInfo {
        name: take_text(r)?,
        predefined: take_bool(r)?,
        objects: r.u64("a number of objects")?,
        distinct: take_option(r, |r| r.u64("a number of values"))?,
        indexed: take_bool(r)?,
        bytes: (r.u64("a number of bytes")?, r.u64("a number of bytes")?),
    })
}

fn put_tag_where(out: &mut Vec<u8>, tag: &TagWhere) {
    put_filter(out, &tag.filter);
    tag.change.set.encode(out);
    put_bool(out, tag.change.keep);
    put_list(out, &tag.change.remove, |out, name| put_text(out, name));
    put_option(out, tag.principal.as_ref(), put_principal);
    put_bool(out, tag.dry_run);
    put_option(out, tag.idempotency_key.as_deref(), put_bytes);
}

fn take_tag_where(r: &mut Reader<'_>) -> Result<TagWhere, DecodeError> {
    Ok(TagWhere {
        filter: take_filter(r)?,
        change: TagChange {
            set: Properties::decode(r)?,
            keep: take_bool(r)?,
            remove: take_list(r, 1, take_text)?,
        },
        principal: take_option(r, take_principal)?,
        dry_run: take_bool(r)?,
        idempotency_key: take_option(r, |r| r.bytes("a marker").map(<[u8]>::to_vec))?,
    })
}

fn put_key(out: &mut Vec<u8>, key: &ObjectKey) {
    match key {
        ObjectKey::Id(id) => {
            out.push(0);
            put_u64(out, id.0);
        }
        ObjectKey::Identity(identity) => {
            out.push(1);
            put_identity(out, identity);
        }
    }
}

fn take_key(r: &mut Reader<'_>) -> Result<ObjectKey, DecodeError> {
    Ok(match r.u8("a kind of key")? {
        // A number that is not valid names no existing object.
        0 => ObjectKey::Id(ObjectId(r.u64("an object's number")?)),
        1 => ObjectKey::Identity(take_identity(r)?),
        _ => return Err(r.error("a kind of key (0 or 1)")),
    })
}

pub(super) fn put_principal(out: &mut Vec<u8>, principal: &Principal) {
    put_u64(out, principal.uid.cast_unsigned());
    put_list(out, &principal.gids, |out, gid| {
        put_u64(out, gid.cast_unsigned());
    });
}

pub(super) fn take_principal(r: &mut Reader<'_>) -> Result<Principal, DecodeError> {
    Ok(Principal {
        uid: r.u64("a user")?.cast_signed(),
        gids: take_list(r, 8, |r| Ok(r.u64("a group")?.cast_signed()))?,
    })
}

fn put_id(out: &mut Vec<u8>, id: FindId) {
    put_u32(out, id.server.0);
    put_u64(out, id.incarnation);
    put_u64(out, id.number);
}

fn take_id(r: &mut Reader<'_>) -> Result<FindId, DecodeError> {
    Ok(FindId {
        server: ServerId(r.u32("a server")?),
        incarnation: r.u64("an incarnation")?,
        number: r.u64("a number")?,
    })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn take_text(r: &mut Reader<'_>) -> Result<String, DecodeError> {
    r.str("text").map(str::to_owned)
}

fn put_bool(out: &mut Vec<u8>, yes: bool) {
    out.push(u8::from(yes));
}

fn take_bool(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8("yes or no, 1 or 0")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(r.error("yes or no, 1 or 0")),
    }
}

pub(super) fn put_option<T>(
    out: &mut Vec<u8>,
    value: Option<T>,
    put: impl FnOnce(&mut Vec<u8>, T),
) {
    put_bool(out, value.is_some());
    if let Some(value) = value {
        put(out, value);
    }
}

pub(super) fn take_option<T>(
    r: &mut Reader<'_>,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    Ok(if take_bool(r)? { Some(take(r)?) } else { None })
}

pub(super) fn put_list<T>(out: &mut Vec<u8>, list: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_varint(out, list.len() as u64);
    for item in list {
        put(out, item);
    }
}

/// Decodes a list. `least` is the smallest encoding of an item in bytes, so that a wrong count is refused before
/// memory is allocated.
pub(super) fn take_list<T>(
    r: &mut Reader<'_>,
    least: usize,
    take: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = r.count(least, "a number of items")?;
    (0..count).map(|_| take(r)).collect()
}
