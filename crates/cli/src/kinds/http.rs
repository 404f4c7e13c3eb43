//! `kind = "http"`: a hyper server on a loopback port, and the connections that load it.
//!
//! The server's tasks (a listener, and one for each connection) run in the task's group; the load's
//! (a client for each connection, and hyper's transport for it) in the group that the workload
//! names, or in the same. The meter of the server's group counts answers that have arrived whole.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, header, server};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::cpu::Cpu;
use super::meter::Latencies;
use super::{Context, Failure, Outcome};
use crate::engine::spawn;
use crate::kinds::meter::Unit;
use crate::workload::model::Http;

/// A port that is open and not served yet.
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Opens a free port on the loopback interface.
    ///
    /// # Errors
    ///
    /// The system has no port or descriptor left.
    pub(crate) fn bind() -> io::Result<Self> {
        let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Where it is reached.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Accepts connections for ever and serves each in a task of its own.
pub(crate) async fn serve(http: Http, listener: Listener, context: Context) -> Outcome {
    let listener = TcpListener::from_std(listener.socket).map_err(Failure::io("listen"))?;
    let body = Bytes::from(vec![b'e'; http.body]);
    loop {
        let (stream, _) = listener
            .accept()
            .await
            .map_err(Failure::io("accept a connection"))?;
        stream
            .set_nodelay(true)
            .map_err(Failure::io("configure a socket"))?;
        // An error on a connection is seen, and reported, by its client.
        drop(spawn(connection(
            stream,
            body.clone(),
            http.work,
            context.cpu,
        )));
    }
}

/// Serves one connection until its client closes it.
async fn connection(
    stream: TcpStream,
    body: Bytes,
    work: Duration,
    cpu: Cpu,
) -> Result<(), hyper::Error> {
    let service = service_fn(move |_: Request<Incoming>| {
        cpu.burn(work);
        let answer = Response::new(Full::new(body.clone()));
        async { Ok::<_, Infallible>(answer) }
    });
    server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// Sends requests over one connection for ever, each after the answer to the one before and a
/// think time drawn evenly from 0.5 to 1.5 times the mean.
pub(crate) async fn load(
    http: Http,
    address: SocketAddr,
    latencies: Latencies,
    mut context: Context,
) -> Outcome {
    // Without this all connections would ask at the same instant, again and again.
    pause(context.rng.below(http.think)).await;
    let stream = TcpStream::connect(address)
        .await
        .map_err(Failure::io("connect"))?;
    stream
        .set_nodelay(true)
        .map_err(Failure::io("configure a socket"))?;
    let (mut sender, transport) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    drop(spawn(transport));
    loop {
        let start = Instant::now();
        let mut request = Request::new(Empty::<Bytes>::new());
        let host = header::HeaderValue::from_static("localhost");
        request.headers_mut().insert(header::HOST, host);
        sender.ready().await?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes().len();
        if !status.is_success() || bytes != http.body {
            return Err(Failure::Answer { status, bytes });
        }
        latencies.record(start.elapsed());
        context.meter.add(Unit::Requests, 1);
        pause(context.rng.around(http.think)).await;
    }
}

/// Sleeps, except for no time at all.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
