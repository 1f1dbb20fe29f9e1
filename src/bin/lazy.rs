//! The one program of lazy; which of its applets runs is decided by its name and its first word.

fn main() -> std::process::ExitCode {
    lazy::applet::main()
}
