//! The queue compared with a linear list.

use esker_site_cache::queue::{Class, Enqueued, PRIORITY_MAX, Queue, Run};
use proptest::prelude::*;

#[derive(Debug)]
struct Waiting {
    key: u8,
    class: Class,
    turn: i64,
    run: Option<Run>,
    waiters: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue(u8, Class),
    Next,
    Complete(usize),
    Again(usize),
    Preempt,
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![
        2 => Just(Class::Fetch),
        3 => (0..=PRIORITY_MAX).prop_map(Class::Prefetch),
    ];
    prop_oneof![
        6 => (0_u8..20, class).prop_map(|(key, class)| Step::Enqueue(key, class)),
        4 => Just(Step::Next),
        2 => (0_usize..8).prop_map(Step::Complete),
        1 => (0_usize..8).prop_map(Step::Again),
        1 => Just(Step::Preempt),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost_or_sent_twice_and_the_urgent_go_first(
        waiting_max in 1_usize..10,
        running_max in 1_usize..5,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut queue = Queue::new(waiting_max, running_max);
        let mut model: Vec<Waiting> = Vec::new();
        let mut notified = Vec::new();
        let mut asked = 0_u32;
        // Positions at the front count down, positions at the end up.
        let (mut turn, mut front) = (0_i64, 0_i64);
        let mut last_run = Run(0);
        for step in steps {
            let running = model.iter().filter(|w| w.run.is_some()).count();
            let waiting = model.len() - running;
            let runs: Vec<Run> = model.iter().filter_map(|w| w.run).collect();
            turn += 1;
            front -= 1;
            match step {
                Step::Enqueue(key, class) => {
                    asked += 1;
                    let mut displaced = None;
                    let said = queue.enqueue(key, class, Some(asked), &mut displaced);
                    if let Some(same) = model.iter_mut().find(|w| w.key == key) {
                        let raised = same.class != Class::Fetch && class == Class::Fetch;
                        let running = same.run.is_some();
                        prop_assert_eq!(said, Enqueued::Joined { raised, running });
                        same.waiters.push(asked);
                        if class > same.class {
                            same.class = class;
                            if same.run.is_none() {
                                same.turn = turn;
                            }
                        }
                        prop_assert_eq!(displaced, None);
                        continue;
                    }
                    if waiting >= waiting_max {
                        let least = model.iter().enumerate().filter(|(_, w)| w.run.is_none());
                        let least = least.min_by_key(|(_, w)| (w.class, -w.turn)).map(|(at, _)| at);
                        let least = least.filter(|at| model[*at].class < class);
                        match least {
                            None => {
                                prop_assert_eq!(said, Enqueued::Full);
                                notified.push(asked);
                                continue;
                            }
                            Some(at) => {
                                let gone = model.remove(at);
                                let (key, waiters) = displaced.clone().unwrap();
                                let waiters: Vec<u32> = waiters.into_iter().collect();
                                notified.extend(&waiters);
                                prop_assert_eq!((key, waiters), (gone.key, gone.waiters));
                            }
                        }
                    }
                    prop_assert_eq!(said, Enqueued::New);
                    model.push(Waiting { key, class, turn, run: None, waiters: vec![asked] });
                }
                Step::Next => {
                    let best = model.iter_mut().filter(|w| w.run.is_none());
                    let best = best.max_by_key(|w| (w.class, -w.turn));
                    let best = best.filter(|_| running < running_max);
                    match (queue.send(), best) {
                        (None, None) => {}
                        (Some(sent), Some(best)) => {
                            prop_assert_eq!((sent.key, sent.class), (best.key, best.class));
                            prop_assert!(sent.run > last_run);
                            last_run = sent.run;
                            best.run = Some(sent.run);
                        }
                        (got, expected) => prop_assert!(false, "{got:?} for {expected:?}"),
                    }
                }
                Step::Complete(which) => {
                    let Some(run) = runs.get(which).copied() else {
                        prop_assert!(queue.complete(Run(which as u64)).is_none());
                        continue;
                    };
                    let at = model.iter().position(|w| w.run == Some(run)).unwrap();
                    let expected = model.remove(at);
                    let over = queue.complete(run).unwrap();
                    prop_assert_eq!((over.key, over.class), (expected.key, expected.class));
                    let waiters: Vec<u32> = over.waiters.into_iter().collect();
                    prop_assert_eq!(&waiters, &expected.waiters);
                    notified.extend(waiters);
                    prop_assert!(queue.complete(run).is_none());
                }
                Step::Again(which) => {
                    let Some(run) = runs.get(which).copied() else { continue };
                    prop_assert!(queue.requeue(run));
                    let same = model.iter_mut().find(|w| w.run == Some(run)).unwrap();
                    same.run = None;
                    same.turn = front;
                }
                Step::Preempt => {
                    let fetch = model.iter().any(|w| w.run.is_none() && w.class == Class::Fetch);
                    let least = model.iter_mut().filter(|w| w.run.is_some() && w.class != Class::Fetch);
                    let least = least.min_by_key(|w| (w.class, std::cmp::Reverse(w.run)));
                    let least = least.filter(|_| fetch && running >= running_max);
                    let got = queue.preempt();
                    prop_assert_eq!(got, least.as_ref().and_then(|w| w.run));
                    if let Some(least) = least {
                        least.run = None;
                        least.turn = front;
                        prop_assert!(queue.complete(got.unwrap()).is_none());
                    }
                }
            }
            prop_assert_eq!(queue.waiting() + queue.running(), model.len());
            prop_assert!(queue.waiting() <= waiting_max + running_max);
            prop_assert!(queue.running() <= running_max);
            for waiting in &model {
                prop_assert!(queue.has(waiting.key));
            }
        }
        // Every waiter is notified once.
        while let Some(sent) = queue.send().or_else(|| {
            let run = model.iter().find_map(|w| w.run)?;
            let at = model.iter().position(|w| w.run == Some(run))?;
            model.remove(at);
            notified.extend(queue.complete(run)?.waiters);
            queue.send()
        }) {
            notified.extend(queue.complete(sent.run).unwrap().waiters);
            model.retain(|w| w.key != sent.key);
        }
        for waiting in model.drain(..).filter_map(|w| w.run) {
            notified.extend(queue.complete(waiting).unwrap().waiters);
        }
        notified.sort_unstable();
        prop_assert_eq!(notified, (1..=asked).collect::<Vec<_>>());
    }
}
