//! Clients that run under a scenario's faults, and the recovery that follows.

use super::blocking_client::BlockingClient;
use super::chaos::inject_faults;
use super::cluster::Cluster;
use super::exec::OUTSIDE;
use super::net::Faults;
use super::scenario::Scenario;
use crate::rng::Rng;
use std::cell::Cell;
use std::rc::Rc;

/// One minute of simulated time, in microseconds.
const MINUTE: u64 = 60_000_000;

/// Starts clients with `begin`, injects the scenario's faults until no client is `busy`, and then waits until all
/// servers serve. Faults may last two minutes; after that the cluster must recover.
///
/// # Errors
/// If clients still wait long after the faults, or a server does not come back.
pub fn run_clients(
    scenario: &Scenario,
    (cluster, client_view): (&Rc<Cluster>, &BlockingClient),
    rng: &mut Rng,
    busy: &dyn Fn() -> usize,
    begin: &mut dyn FnMut(&mut Rng),
) -> Result<(), String> {
    cluster.set_faults(scenario.faults);
    let stop = Rc::new(Cell::new(false));
    if let Some(kinds) = scenario.level.fault_kinds() {
        let chaos = inject_faults(
            Rc::clone(cluster),
            Rng::new(rng.next()),
            kinds,
            Rc::clone(&stop),
        );
        cluster.exec.spawn(OUTSIDE, Box::pin(chaos));
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
    shared.note(|| "no more faults".into());
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
        .map_err(|e| format!("{} clients still wait after the last fault: {e:?}", busy()))?;
    client_view.wait(10_000_000);
    cluster
        .start_all()
        .map_err(|e| format!("a server cannot be opened again: {e}"))?;
    cluster
        .exec
        .block_on(cluster.joined(), MINUTE)
        .map_err(|e| format!("servers do not join: {e:?}"))?;
    client_view.wait(2 * MINUTE);
    Ok(())
}
