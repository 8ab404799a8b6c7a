//! Inspection of expressions: variables, conjuncts, text.

use super::Expr;
use crate::exec::Var;

impl Expr {
    /// Returns the distinct variables that the expression reads, including those of patterns inside EXISTS.
    pub fn vars(&self) -> Vec<Var> {
        let mut vars = Vec::new();
        self.collect(&mut vars);
        vars.sort_unstable();
        vars.dedup();
        vars
    }

    pub(crate) fn collect(&self, vars: &mut Vec<Var>) {
        match self {
            Self::Const(_) => {}
            Self::Var(v) | Self::Bound(v) => vars.push(*v),
            Self::Exists(node) => node.all_vars(vars),
            _ => self.each(&mut |e| e.collect(vars)),
        }
    }

    /// Calls `see` for each direct subexpression.
    pub(crate) fn each<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
        match self {
            Self::Const(_) | Self::Var(_) | Self::Bound(_) | Self::Exists(_) => {}
            Self::Or(list) | Self::And(list) | Self::Coalesce(list) | Self::Call(_, list) => {
                list.iter().for_each(see);
            }
            Self::Not(a) | Self::Sign(_, a) => see(a),
            Self::Equal(a, b)
            | Self::SameTerm(a, b)
            | Self::Compare(_, a, b)
            | Self::Arithmetic(_, a, b) => {
                see(a);
                see(b);
            }
            Self::In(a, list) => {
                see(a);
                list.iter().for_each(see);
            }
            Self::If(a, b, c) => {
                see(a);
                see(b);
                see(c);
            }
        }
    }

    /// Returns whether the expression contains EXISTS.
    pub(crate) fn has_exists(&self) -> bool {
        let mut found = matches!(self, Self::Exists(_));
        self.each(&mut |e| found |= e.has_exists());
        found
    }

    /// Returns whether the expression is non-deterministic.
    pub(crate) fn is_volatile(&self) -> bool {
        use spargebra::algebra::Function as F;
        let mut found = matches!(
            self,
            Self::Call(F::Rand | F::Uuid | F::StrUuid | F::BNode, _)
        );
        self.each(&mut |e| found |= e.is_volatile());
        found
    }

    /// Splits nested conjunctions into their operands.
    pub(crate) fn conjuncts(self, to: &mut Vec<Self>) {
        match self {
            Self::And(list) => list.into_iter().for_each(|e| e.conjuncts(to)),
            other => to.push(other),
        }
    }

    /// Returns the expression as text for EXPLAIN.
    pub(crate) fn show(&self, name: &dyn Fn(Var) -> String) -> String {
        let all = |list: &[Self], by: &str| -> String {
            list.iter()
                .map(|e| e.show(name))
                .collect::<Vec<_>>()
                .join(by)
        };
        match self {
            Self::Const(_) => "·".into(),
            Self::Var(v) => name(*v),
            Self::Or(list) => format!("({})", all(list, " || ")),
            Self::And(list) => format!("({})", all(list, " && ")),
            Self::Not(e) => format!("!{}", e.show(name)),
            Self::Equal(a, b) => format!("{} = {}", a.show(name), b.show(name)),
            Self::SameTerm(a, b) => format!("sameTerm({}, {})", a.show(name), b.show(name)),
            Self::Compare(op, a, b) => format!("{} {} {}", a.show(name), op.sign(), b.show(name)),
            Self::In(a, list) => format!("{} IN ({})", a.show(name), all(list, ", ")),
            Self::Arithmetic(op, a, b) => format!("({} {op} {})", a.show(name), b.show(name)),
            Self::Sign(op, a) => format!("{op}{}", a.show(name)),
            Self::Exists(_) => "EXISTS {…}".into(),
            Self::Bound(v) => format!("BOUND({})", name(*v)),
            Self::If(a, b, c) => {
                format!("IF({}, {}, {})", a.show(name), b.show(name), c.show(name))
            }
            Self::Coalesce(list) => format!("COALESCE({})", all(list, ", ")),
            Self::Call(f, list) => format!("{f}({})", all(list, ", ")),
        }
    }
}
