//! Clients that live while a cluster has its troubles, and the rest that follows.

use super::chaos::trouble;
use super::cluster::Cluster;
use super::exec::WORLD;
use super::facade::Facade;
use super::net::Faults;
use super::play::Scenario;
use crate::rng::Rng;
use std::cell::Cell;
use std::rc::Rc;

/// A virtual minute.
const MINUTE: u64 = 60_000_000;

/// Lets `begin` start clients, of which `busy` says how many have not ended, makes a scenario's trouble meanwhile, and then sees to
/// it that all servers serve. Trouble may last two minutes; after that all must come right.
///
/// # Errors
/// If clients still wait long after the trouble, or a server does not come back.
pub fn through(
    scenario: &Scenario,
    (cluster, facade): (&Rc<Cluster>, &Facade),
    rng: &mut Rng,
    busy: &dyn Fn() -> usize,
    begin: &mut dyn FnMut(&mut Rng),
) -> Result<(), String> {
    cluster.set_faults(scenario.faults);
    let stop = Rc::new(Cell::new(false));
    if let Some(dangers) = scenario.weather.dangers() {
        let chaos = trouble(
            Rc::clone(cluster),
            Rng::new(rng.next()),
            dangers,
            Rc::clone(&stop),
        );
        cluster.exec.spawn(WORLD, Box::pin(chaos));
    }
    begin(rng);
    let shared = cluster.shared();
    let working = async {
        while busy() > 0 && shared.now() < 2 * MINUTE {
            shared.sleep(1000).await;
        }
    };
    let _ = cluster.exec.block_on(working, 3 * MINUTE);
    stop.set(true);
    shared.note(|| "the weather clears".into());
    cluster.net.join_all();
    cluster.set_faults(Faults::default());
    let mended = async {
        while !cluster.all_joined() || busy() > 0 {
            if let Err(e) = cluster.start_all() {
                cluster.complain(format!("a server cannot be opened again: {e}"));
                return;
            }
            cluster.net.join_all();
            shared.sleep(10_000).await;
        }
    };
    cluster
        .exec
        .block_on(mended, 5 * MINUTE)
        .map_err(|e| format!("{} clients still wait after the trouble: {e:?}", busy()))?;
    facade.wait(10_000_000);
    cluster
        .start_all()
        .map_err(|e| format!("a server cannot be opened again: {e}"))?;
    cluster
        .exec
        .block_on(cluster.joined(), MINUTE)
        .map_err(|e| format!("servers do not join: {e:?}"))?;
    facade.wait(2 * MINUTE);
    Ok(())
}
