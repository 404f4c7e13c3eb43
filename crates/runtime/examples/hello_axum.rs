//! axum's hello-world program, with nothing changed but the attribute.
//!
//! Run it with `cargo run -p evenkeel --example hello_axum`, then open <http://127.0.0.1:3000>.

use axum::{Router, response::Html, routing::get};

#[evenkeel::main]
async fn main() {
    // build our application with a route
    let app = Router::new().route("/", get(handler));

    // run it
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000")
        .await
        .unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

async fn handler() -> Html<&'static str> {
    Html("<h1>Hello, World!</h1>")
}
