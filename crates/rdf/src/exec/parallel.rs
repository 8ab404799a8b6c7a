//! Parallel work on ranges of rows. Results stay in order, so the output does not depend on the number of threads.

use super::Context;
use crate::error::Result;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Processes ranges of at most `each` rows. Each thread creates its state once, for all its ranges. Threads are used if the query may use
/// them and there is more than one range.
pub(crate) fn portions<'a, S, T: Send>(
    ctx: &Context<'a>,
    len: usize,
    each: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&Context<'a>, &mut S, Range<usize>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let each = each.max(1);
    let count = len.div_ceil(each);
    let range = |i: usize| i * each..((i + 1) * each).min(len);
    let threads = ctx.options.threads.min(count);
    if threads <= 1 {
        let mut own = state();
        return (0..count).map(|i| work(ctx, &mut own, range(i))).collect();
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(count));
    let run = |fork: Context<'a>| {
        let mut own = state();
        let mut mine = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                break;
            }
            let mut result = work(&fork, &mut own, range(i));
            if let Some(error) = fork.failed.borrow_mut().take() {
                result = Err(error);
            }
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            mine.push((i, result));
        }
        done.lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .append(&mut mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let fork = ctx.fork();
            let run = &run;
            scope.spawn(move || run(fork));
        }
        run(ctx.fork());
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns the size of a range such that each thread has several and none is tiny; `len` if there are few rows.
pub(crate) fn portion(ctx: &Context<'_>, len: usize) -> usize {
    let (threads, many) = (ctx.options.threads, ctx.options.parallel_rows);
    if threads <= 1 || len < many {
        return len;
    }
    (len / (threads * 8)).clamp(many.min(16), 1 << 14)
}
