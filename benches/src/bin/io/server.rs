//! The servers. One runs in a child process, serves on a free port of the loopback, and answers
//! each line on standard input with the CPU time it has used; it ends when standard input does.

use std::convert::Infallible;
use std::error::Error;
use std::io::{BufRead, Write};
use std::net::SocketAddr;

use clap::Args;
use evenkeel_benches::exec::{Evenkeel, Executor, Tokio};
use evenkeel_benches::proc::cpu_time_ns;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::{Protocol, Server};

/// Largest datagram of the UDP echo, and size of the TCP echo's buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// Settings of a server process.
#[derive(Args)]
pub(crate) struct Options {
    server: Server,
    protocol: Protocol,
    #[arg(long)]
    threads: usize,
}

/// Serves until standard input ends. The first line on standard output is the address.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    match options.server {
        Server::Evenkeel => serve(&Evenkeel::start(options.threads), options.protocol),
        Server::EvenkeelPark => serve(
            &Evenkeel::start_preempted(options.threads),
            options.protocol,
        ),
        Server::Tokio => serve(&Tokio::start(options.threads), options.protocol),
    }
}

fn serve<E: Executor>(executor: &E, protocol: Protocol) -> Result<(), Box<dyn Error>> {
    let address = match protocol {
        Protocol::Udp => {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            detach(executor.spawn(0, echo_datagrams(socket)));
            address
        }
        Protocol::Http | Protocol::Tcp => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            detach(executor.spawn(0, accept(executor.clone(), listener, protocol)));
            address
        }
    };
    answer_control(address)?;
    // The accepting task never ends; neither would a shutdown that waited for it.
    std::process::exit(0);
}

/// Drops the handle of a task that goes on.
fn detach<T>(handle: T) {
    drop(handle);
}

fn answer_control(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{address}")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        line?;
        writeln!(out, "{}", cpu_time_ns())?;
        out.flush()?;
    }
    Ok(())
}

async fn accept<E: Executor>(executor: E, listener: std::net::TcpListener, protocol: Protocol) {
    let listener = TcpListener::from_std(listener).expect("the worker drives I/O");
    loop {
        let (stream, _) = listener.accept().await.expect("the loopback accepts");
        stream
            .set_nodelay(true)
            .expect("a TCP socket has the option");
        match protocol {
            Protocol::Http => detach(executor.spawn_inside(0, serve_http(stream))),
            _ => detach(executor.spawn_inside(0, echo_stream(stream))),
        }
    }
}

async fn serve_http(stream: TcpStream) {
    let service = service_fn(hello);
    let connection = hyper::server::conn::http1::Builder::new();
    // An error here is a client that went away.
    let _ = connection
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(
        b"Hello, world!",
    ))))
}

async fn echo_stream(mut stream: TcpStream) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if stream.write_all(&buffer[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn echo_datagrams(socket: std::net::UdpSocket) {
    let socket = UdpSocket::from_std(socket).expect("the worker drives I/O");
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        // A failed receive or send is a client that went away.
        if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    }
}
