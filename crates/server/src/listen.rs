//! Accepting and counting connections of the port and of the folder's socket.

use crate::access::Caller;
use crate::connection::{
    Acceptor, ConnectionRoutes, Phase, serve, serve_http, slots, wait_for_phase,
};
use crate::service::Service as Esker;
use axum::Router;
use esker_access::slots::Source;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

/// Accepts connections until a stop begins; then the port is free.
pub(crate) async fn accept(
    listener: TcpListener,
    service: Arc<Esker>,
    routes: Router,
    acceptor: Acceptor,
    mut stop: watch::Receiver<Phase>,
) {
    loop {
        // Yield, so that a flood of connections is accepted one by one between other work; otherwise a hundred are accepted while
        // requests wait.
        tokio::task::yield_now().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_phase(&mut stop, Phase::Draining) => return,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                // Most likely out of file descriptors: other connections may close theirs.
                tracing::warn!(error = %e, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some((stream, connection)) = acceptor.admit(stream, from) else {
            service.metrics.connections_refused.add(1);
            continue;
        };
        let refused = connection.slot.refusal().is_some();
        service.metrics.connections_refused.add(u64::from(refused));
        service.metrics.connections.add(1);
        let (service, acceptor, stop) = (Arc::clone(&service), acceptor.clone(), stop.clone());
        let routes = routes.clone();
        tokio::spawn(async move {
            serve(stream, &acceptor, connection, routes, stop).await;
            service.metrics.connections.add(-1);
        });
    }
}

/// Accepts connections from processes of this machine, at a socket in the database's folder, until a stop begins.
pub(crate) async fn accept_local(
    listener: UnixListener,
    service: Arc<Esker>,
    routes: Router,
    mut stop: watch::Receiver<Phase>,
) {
    // Separate from the port's slots, so that connections there cannot exhaust these.
    let slots = slots(&service.settings.limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_phase(&mut stop, Phase::Draining) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let user = stream.peer_cred().ok().map(|c| c.uid());
        let source = Source::new(Ipv4Addr::LOCALHOST.into(), user);
        let owner = user.is_some_and(|user| service.access.is_owner(user));
        let Some(slot) = slots.take(source, owner) else {
            service.metrics.connections_refused.add(1);
            slots.close_later(stream);
            continue;
        };
        let refused = slot.refusal().is_some();
        service.metrics.connections_refused.add(u64::from(refused));
        service.metrics.connections.add(1);
        let routes = ConnectionRoutes {
            routes: routes.clone(),
            access: Arc::clone(&service.access),
            caller: Caller::local(user, slot),
        };
        let (service, stop) = (Arc::clone(&service), stop.clone());
        tokio::spawn(async move {
            serve_http(stream, routes, stop).await;
            service.metrics.connections.add(-1);
        });
    }
}
