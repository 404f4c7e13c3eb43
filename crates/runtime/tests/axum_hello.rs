//! axum's hello world and a hyper client, unchanged, on `#[evenkeel::test]`.

use std::net::SocketAddr;

use axum::{Router, response::Html, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

async fn handler() -> Html<&'static str> {
    Html("<h1>Hello, World!</h1>")
}

/// Serves the router of `examples/hello_axum.rs` on a free port.
async fn serve() -> SocketAddr {
    let app = Router::new().route("/", get(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(evenkeel::spawn(
        async move { axum::serve(listener, app).await },
    ));
    address
}

/// Opens one connection, asks for each path in turn, and returns the answers.
async fn fetch(address: SocketAddr, paths: &[&str]) -> Vec<(StatusCode, String)> {
    let stream = TcpStream::connect(address)
        .await
        .expect("the server listens");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("handshake");
    let connection = evenkeel::spawn(connection);
    let mut answers = Vec::new();
    for path in paths {
        let request = Request::get(*path)
            .header(header::HOST, "localhost")
            .body(Empty::<Bytes>::new())
            .expect("a valid request");
        sender.ready().await.expect("the connection stays open");
        let answer = sender.send_request(request).await.expect("an answer");
        let status = answer.status();
        let body = answer
            .into_body()
            .collect()
            .await
            .expect("a whole body")
            .to_bytes();
        answers.push((status, String::from_utf8(body.to_vec()).expect("text")));
    }
    drop(sender);
    connection
        .await
        .expect("no panic")
        .expect("the connection closes well");
    answers
}

fn hello() -> (StatusCode, String) {
    (StatusCode::OK, "<h1>Hello, World!</h1>".to_owned())
}

#[evenkeel::test]
async fn one_worker() {
    let address = serve().await;
    let answers = fetch(address, &["/", "/nowhere", "/"]).await;
    let not_found = (StatusCode::NOT_FOUND, String::new());
    assert_eq!(answers, [hello(), not_found, hello()]);
}

#[evenkeel::test(worker_threads = 2, io = "dedicated")]
async fn dedicated_io() {
    let address = serve().await;
    assert_eq!(fetch(address, &["/"]).await, [hello()]);
}

#[evenkeel::test(worker_threads = 2)]
async fn many_clients() {
    let address = serve().await;
    let clients: Vec<_> = (0..20)
        .map(|_| evenkeel::spawn(async move { fetch(address, &["/"; 10]).await }))
        .collect();
    for client in clients {
        assert_eq!(client.await.expect("no panic"), vec![hello(); 10]);
    }
}
