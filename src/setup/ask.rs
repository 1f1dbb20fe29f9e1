//! Questions to a person, behind a trait so that a test can answer.

use crate::base::{Error, Process, Result};

/// Somebody who answers. Every question has a default that an empty answer takes.
pub trait Ask {
    /// A line of text.
    fn text(&mut self, question: &str, default: &str) -> Result<String>;

    /// One of several; the answer is an index into `options`, as is `default`.
    fn choose(&mut self, question: &str, options: &[String], default: usize) -> Result<usize>;
}

/// Takes every default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults;

impl Ask for Defaults {
    fn text(&mut self, _question: &str, default: &str) -> Result<String> {
        Ok(default.to_string())
    }

    fn choose(&mut self, _question: &str, _options: &[String], default: usize) -> Result<usize> {
        Ok(default)
    }
}

/// Asks on standard error and reads standard input; the end of the input cancels.
#[derive(Debug, Clone)]
pub struct Terminal(Process);

impl Terminal {
    /// The terminal of a process.
    pub fn new(process: &Process) -> Terminal {
        Terminal(process.clone())
    }

    fn answer(&self, prompt: &str) -> Result<String> {
        self.0.err(prompt);
        match self.0.read_line()? {
            Some(line) => Ok(line.trim().to_string()),
            None => Err(Error::new(crate::base::Kind::Canceled, "the question was not answered")),
        }
    }
}

impl Ask for Terminal {
    fn text(&mut self, question: &str, default: &str) -> Result<String> {
        let answer = self.answer(&format!("{question} [{default}]: "))?;
        Ok(if answer.is_empty() { default.to_string() } else { answer })
    }

    fn choose(&mut self, question: &str, options: &[String], default: usize) -> Result<usize> {
        self.0.err_line(question);
        for (index, option) in options.iter().enumerate() {
            self.0.err_line(format!("  {}  {option}", index + 1));
        }
        loop {
            let answer = self.answer(&format!("1 to {} [{}]: ", options.len(), default + 1))?;
            let by_name = options.iter().position(|option| *option == answer);
            let by_number = answer.parse::<usize>().ok().filter(|number| (1..=options.len()).contains(number));
            match (answer.is_empty(), by_number.map(|number| number - 1).or(by_name)) {
                (true, _) => return Ok(default),
                (false, Some(index)) => return Ok(index),
                (false, None) => self.0.err_line(format!("{answer:?} is none of them")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Kind, Millis};
    use std::path::Path;

    #[test]
    fn the_end_of_the_input_cancels() {
        let process = Process::fake(["lazy"], &[], Path::new("/"), Millis(0));
        let mut terminal = Terminal::new(&process);
        assert_eq!(terminal.text("Where?", "here").expect_err("no input").kind(), Kind::Canceled);
        let options = ["a".to_string(), "b".to_string()];
        assert_eq!(terminal.choose("Which?", &options, 1).expect_err("no input").kind(), Kind::Canceled);
        let (_, asked) = process.captured();
        assert!(asked.contains("Where? [here]: ") && asked.contains("1 to 2 [2]: "), "{asked}");
    }

    #[test]
    fn defaults_are_taken() {
        assert_eq!(Defaults.text("Where?", "here").expect("answers"), "here");
        assert_eq!(Defaults.choose("Which?", &["a".into(), "b".into()], 1).expect("answers"), 1);
    }
}
