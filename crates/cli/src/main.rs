//! The `evenkeel` program.
#![forbid(unsafe_code)]
mod workload;
fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    match workload::Document::read(path.as_ref()) {
        Ok(d) => { println!("{:#?}", d.workload); println!("{:?}", d.load_files().map(|_|())); }
        Err(e) => println!("{e}"),
    }
}
