//! Functions on numbers and dates, and conversions by the constructor functions of XML Schema's datatypes.

use super::decimal;
use super::value::Value;
use crate::id::XSD;
use spargebra::algebra::Function;

/// Evaluates a function of one number; `None` for other values and on overflow.
pub(super) fn numeric(f: &Function, value: Value) -> Option<Value> {
    use Value::{DecimalLiteral, DoubleLiteral, FloatLiteral, IntegerLiteral};
    Some(match (f, value) {
        (Function::Abs, IntegerLiteral(n)) => IntegerLiteral(n.checked_abs()?),
        (Function::Abs, DecimalLiteral(n)) => DecimalLiteral(n.checked_abs()?),
        (Function::Abs, FloatLiteral(n)) => FloatLiteral(n.abs()),
        (Function::Abs, DoubleLiteral(n)) => DoubleLiteral(n.abs()),
        (_, n @ IntegerLiteral(_)) => n,
        (Function::Ceil, DecimalLiteral(n)) => DecimalLiteral(n.checked_ceil()?),
        (Function::Ceil, FloatLiteral(n)) => FloatLiteral(n.ceil()),
        (Function::Ceil, DoubleLiteral(n)) => DoubleLiteral(n.ceil()),
        (Function::Floor, DecimalLiteral(n)) => DecimalLiteral(n.checked_floor()?),
        (Function::Floor, FloatLiteral(n)) => FloatLiteral(n.floor()),
        (Function::Floor, DoubleLiteral(n)) => DoubleLiteral(n.floor()),
        (Function::Round, DecimalLiteral(n)) => DecimalLiteral(n.checked_round()?),
        (Function::Round, FloatLiteral(n)) => FloatLiteral(n.round()),
        (Function::Round, DoubleLiteral(n)) => DoubleLiteral(n.round()),
        _ => return None,
    })
}

/// Evaluates a function that takes a part of a date or time; `None` if the value has no such part.
pub(super) fn date_part(f: &Function, value: &Value) -> Option<Value> {
    use Value::{DateLiteral, DateTimeLiteral, TimeLiteral};
    let part: i64 = match (f, value) {
        (Function::Year, DateTimeLiteral(t)) => t.year(),
        (Function::Year, DateLiteral(t)) => t.year(),
        (Function::Month, DateTimeLiteral(t)) => t.month().into(),
        (Function::Month, DateLiteral(t)) => t.month().into(),
        (Function::Day, DateTimeLiteral(t)) => t.day().into(),
        (Function::Day, DateLiteral(t)) => t.day().into(),
        (Function::Hours, DateTimeLiteral(t)) => t.hour().into(),
        (Function::Hours, TimeLiteral(t)) => t.hour().into(),
        (Function::Minutes, DateTimeLiteral(t)) => t.minute().into(),
        (Function::Minutes, TimeLiteral(t)) => t.minute().into(),
        (Function::Seconds, DateTimeLiteral(t)) => return Some(Value::DecimalLiteral(t.second())),
        (Function::Seconds, TimeLiteral(t)) => return Some(Value::DecimalLiteral(t.second())),
        (Function::Timezone, _) => {
            return Some(Value::DayTimeDurationLiteral(match value {
                DateTimeLiteral(t) => t.timezone(),
                DateLiteral(t) => t.timezone(),
                TimeLiteral(t) => t.timezone(),
                _ => None,
            }?));
        }
        (Function::Tz, _) => {
            let offset = match value {
                DateTimeLiteral(t) => t.timezone_offset(),
                DateLiteral(t) => t.timezone_offset(),
                TimeLiteral(t) => t.timezone_offset(),
                _ => return None,
            };
            let text = offset.map_or_else(String::new, |offset| offset.to_string());
            return Some(Value::StringLiteral(text));
        }
        _ => return None,
    };
    Some(Value::IntegerLiteral(part.into()))
}

/// Whether [`constructed`] converts by the function with this name.
pub(super) fn is_constructor(name: &str) -> bool {
    matches!(
        name.strip_prefix(XSD),
        Some("boolean" | "double" | "float" | "integer" | "decimal" | "dateTime")
    )
}

/// Converts a value as the constructor function of a numeric type, `xsd:boolean` or `xsd:dateTime` does (SPARQL 1.1, section 17.5); `None` if it
/// has no such conversion.
pub(super) fn constructed(name: &str, value: &Value) -> Option<Value> {
    use Value::{
        BooleanLiteral, DateLiteral, DateTimeLiteral, DecimalLiteral, DoubleLiteral, FloatLiteral,
        IntegerLiteral, StringLiteral,
    };
    Some(match name.strip_prefix(XSD)? {
        "boolean" => BooleanLiteral(match value {
            BooleanLiteral(v) => *v,
            FloatLiteral(v) => (*v).into(),
            DoubleLiteral(v) => (*v).into(),
            IntegerLiteral(v) => (*v).into(),
            DecimalLiteral(v) => (*v).into(),
            StringLiteral(v) => v.parse().ok()?,
            _ => return None,
        }),
        "double" => DoubleLiteral(match value {
            FloatLiteral(v) => (*v).into(),
            DoubleLiteral(v) => *v,
            IntegerLiteral(v) => (*v).into(),
            DecimalLiteral(v) => decimal::double(*v),
            BooleanLiteral(v) => (*v).into(),
            StringLiteral(v) => v.parse().ok()?,
            _ => return None,
        }),
        "float" => FloatLiteral(match value {
            FloatLiteral(v) => *v,
            DoubleLiteral(v) => (*v).into(),
            IntegerLiteral(v) => (*v).into(),
            DecimalLiteral(v) => decimal::double(*v).into(),
            BooleanLiteral(v) => (*v).into(),
            StringLiteral(v) => v.parse().ok()?,
            _ => return None,
        }),
        "integer" => IntegerLiteral(match value {
            FloatLiteral(v) => (*v).try_into().ok()?,
            DoubleLiteral(v) => (*v).try_into().ok()?,
            IntegerLiteral(v) => *v,
            DecimalLiteral(v) => (*v).try_into().ok()?,
            BooleanLiteral(v) => (*v).into(),
            StringLiteral(v) => v.parse().ok()?,
            _ => return None,
        }),
        "decimal" => DecimalLiteral(match value {
            FloatLiteral(v) => (*v).try_into().ok()?,
            DoubleLiteral(v) => (*v).try_into().ok()?,
            IntegerLiteral(v) => (*v).into(),
            DecimalLiteral(v) => *v,
            BooleanLiteral(v) => (*v).into(),
            StringLiteral(v) => v.parse().ok()?,
            _ => return None,
        }),
        "dateTime" => DateTimeLiteral(match value {
            DateTimeLiteral(v) => *v,
            DateLiteral(v) => (*v).try_into().ok()?,
            StringLiteral(v) => v.parse().ok()?,
            _ => return None,
        }),
        _ => return None,
    })
}
