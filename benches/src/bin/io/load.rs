//! The load generator: connections that each send a request, wait for the answer and send the next,
//! on one thread of Tokio, until the time is over.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_benches::stats::quantile;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::Protocol;

/// A datagram is counted as lost, and the next one sent, after this time.
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(200);

/// Longest response head that the client accepts, in bytes.
const MAX_HEAD_BYTES: usize = 4096;

const HTTP_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Settings of the load.
#[derive(Args, Clone)]
pub(crate) struct Options {
    protocol: Protocol,
    address: SocketAddr,
    #[arg(long)]
    connections: usize,
    /// Seconds; every request is done or given up soon after them.
    #[arg(long, default_value_t = 0.0)]
    seconds: f64,
    /// Bytes of a request; the request itself decides for HTTP.
    #[arg(long, default_value_t = 64)]
    size: usize,
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    latencies_ns: Vec<u64>,
    lost: u64,
}

/// Loads the server and prints one JSON object.
pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (seen, elapsed) = runtime.block_on(load(options))?;
    let mut latencies = seen.latencies_ns;
    latencies.sort_unstable();
    if latencies.is_empty() {
        return Err("no request was answered".into());
    }
    let report = json!({
        "requests": latencies.len(), "lost": seen.lost, "seconds": elapsed.as_secs_f64(),
        "p50_ns": quantile(&latencies, 0.5), "p99_ns": quantile(&latencies, 0.99),
        "max_ns": quantile(&latencies, 1.0),
    });
    println!("{report}");
    Ok(())
}

/// Opens the connections, asks once on each, prints `ready` and waits for the end of standard
/// input.
pub(crate) fn hold(options: &Options) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connections = runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..options.connections {
            let mut stream = TcpStream::connect(options.address).await?;
            http_length(&mut stream).await?;
            connections.push(stream);
        }
        io::Result::Ok(connections)
    })?;
    println!("ready");
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    drop(connections);
    Ok(())
}

async fn load(options: &Options) -> io::Result<(Seen, Duration)> {
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(options.seconds);
    let mut connections = JoinSet::new();
    for _ in 0..options.connections {
        let options = options.clone();
        connections.spawn(async move {
            match options.protocol {
                Protocol::Http => ask_http(&options, end).await,
                Protocol::Tcp => ask_tcp(&options, end).await,
                Protocol::Udp => ask_udp(&options, end).await,
            }
        });
    }
    let mut all = Seen::default();
    while let Some(connection) = connections.join_next().await {
        let mut seen = connection.map_err(io::Error::other)??;
        all.latencies_ns.append(&mut seen.latencies_ns);
        all.lost += seen.lost;
    }
    Ok((all, start.elapsed()))
}

async fn ask_http(options: &Options, end: Instant) -> io::Result<Seen> {
    let mut stream = TcpStream::connect(options.address).await?;
    stream.set_nodelay(true)?;
    let length = http_length(&mut stream).await?;
    let is_answer = |answer: &[u8]| answer.starts_with(b"HTTP/1.1 200");
    exchange(stream, HTTP_REQUEST, length, is_answer, end).await
}

async fn ask_tcp(options: &Options, end: Instant) -> io::Result<Seen> {
    let stream = TcpStream::connect(options.address).await?;
    stream.set_nodelay(true)?;
    let message: Vec<u8> = (0..options.size).map(|byte| byte as u8).collect();
    exchange(
        stream,
        &message,
        options.size,
        |answer| answer == message,
        end,
    )
    .await
}

/// Sends `request` and waits for an answer of `length` bytes, again and again.
async fn exchange(
    mut stream: TcpStream,
    request: &[u8],
    length: usize,
    is_answer: impl Fn(&[u8]) -> bool,
    end: Instant,
) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut answer = vec![0; length];
    let mut begun = Instant::now();
    while begun < end {
        stream.write_all(request).await?;
        stream.read_exact(&mut answer).await?;
        if !is_answer(&answer) {
            return Err(io::Error::other("the server gave another answer"));
        }
        let now = Instant::now();
        seen.latencies_ns.push((now - begun).as_nanos() as u64);
        begun = now;
    }
    Ok(seen)
}

/// Asks once and returns the length of the whole response: all of them are equally long.
async fn http_length(stream: &mut TcpStream) -> io::Result<usize> {
    stream.write_all(HTTP_REQUEST).await?;
    let mut response = Vec::new();
    let head = loop {
        let end = response.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
        if response.len() > MAX_HEAD_BYTES || stream.read_buf(&mut response).await? == 0 {
            return Err(io::Error::other("no end of the response's head"));
        }
    };
    let text = String::from_utf8_lossy(&response[..head]).to_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let body: usize = length
        .and_then(|length| length.trim().parse().ok())
        .ok_or_else(|| io::Error::other("the response has no content-length"))?;
    let mut rest = vec![0; (head + body).saturating_sub(response.len())];
    stream.read_exact(&mut rest).await?;
    Ok(head + body)
}

async fn ask_udp(options: &Options, end: Instant) -> io::Result<Seen> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(options.address).await?;
    let mut message = vec![7; options.size];
    let mut answer = vec![0; options.size];
    let mut seen = Seen::default();
    let mut number = 0u64;
    let mut begun = Instant::now();
    while begun < end {
        number += 1;
        message[..8].copy_from_slice(&number.to_le_bytes());
        socket.send(&message).await?;
        let is_answered = receive(&socket, &mut answer, &message).await?;
        let now = Instant::now();
        if is_answered {
            seen.latencies_ns.push((now - begun).as_nanos() as u64);
        } else {
            seen.lost += 1;
        }
        begun = now;
    }
    Ok(seen)
}

/// Waits for the echo of `message`, passing over late echoes of earlier ones. False: it is lost.
async fn receive(socket: &UdpSocket, answer: &mut [u8], message: &[u8]) -> io::Result<bool> {
    let echo = async {
        while socket.recv(answer).await? != message.len() || answer != message {}
        io::Result::Ok(())
    };
    match tokio::time::timeout(DATAGRAM_TIMEOUT, echo).await {
        Ok(result) => result.map(|()| true),
        Err(_) => Ok(false),
    }
}
