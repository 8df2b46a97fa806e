//! The command line of the server.

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Parser;
use ringload_mock_server::{ControlScript, Fault, Options};

/// A mock inference server that keeps a ledger of what really happened.
#[derive(Debug, Parser)]
#[command(name = "ringload-mock-server", version)]
pub(crate) struct Args {
    /// Address or name to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Threads, each with its own listener
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Milliseconds from a request's last byte to the first token
    #[arg(long, value_name = "MS", default_value = "20", value_parser = milliseconds)]
    ttft: Duration,
    /// Milliseconds by which each request in flight delays the first token of one that arrives, itself included: a server
    /// that slows down under load
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    load_delay: Duration,
    /// Milliseconds from one token to the next; with 0 here and in --ttft there are no delays, and still each token has
    /// a write of its own, as soon as the one before is done
    #[arg(long, value_name = "MS", default_value = "5", value_parser = milliseconds)]
    itl: Duration,
    /// Fraction from 0 to 1 by which each delay varies to either side
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    jitter: f64,
    /// Seed of the variation
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tokens of every answer [default: the limit of the request, such as max_completion_tokens, else 16]
    #[arg(long, value_name = "TOKENS")]
    osl: Option<u32>,
    /// No delays, and each answer in one write; for saturation
    #[arg(long, conflicts_with_all = ["ttft", "load_delay", "itl", "jitter"])]
    fast: bool,
    /// Bearer token that inference requests must carry; in the messages API the x-api-key
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Write one line per request to standard error
    #[arg(long)]
    access_logs: bool,
    /// Ledger entries to keep, the newest ones
    #[arg(long, value_name = "ENTRIES", default_value_t = 1_000_000)]
    ledger_capacity: usize,
    /// Keep the model and the messages of every request in the ledger
    #[arg(long)]
    keep_messages: bool,
    /// Pin thread k to CPU FIRST + k
    #[arg(long, value_name = "FIRST")]
    pin_to: Option<usize>,
    /// Fault for every inference request that asks for none itself (header X-Mock-Fault or query fault=)
    ///
    /// status:CODE, reset-before-head, close-before-head, truncate-body, truncate-stream, reset-mid-stream, garbage,
    /// hang, stall-after:N, no-done, no-finish, stream-error, error-event, no-content, split:N, close-after, redirect,
    /// gzip, interim, no-usage, silent-close, unsuccessful (control routes), every:N:FAULT, first:N:FAULT
    #[arg(long, value_name = "NAME[:ARG]")]
    fault: Option<Fault>,
    /// Answers of a route other than inference in order of its calls, the last one repeated; may be given for several paths
    ///
    /// An answer is STATUS[:BODY], or a fault such as hang, redirect, close-before-head or unsuccessful; @MS delays it. For example
    /// /reset_prefix_cache=503,429@250,200. A path that the server does not know becomes a control route.
    #[arg(long, value_name = "PATH=ANSWER[,ANSWER...]")]
    control: Vec<ControlScript>,
    /// Servers to start, each with its own ledger and control log: on the given port of the given IPv4 address and of those that follow it
    #[arg(long, value_name = "SERVERS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    origins: u8,
}

impl Args {
    /// The options of each server.
    ///
    /// # Errors
    /// Several servers need an address to count from.
    pub(crate) fn into_options(self) -> Result<Vec<Options>, String> {
        let count = self.origins;
        let first = self.host.clone();
        let one = self.into_one();
        if count == 1 {
            return Ok(vec![one]);
        }
        let first: Ipv4Addr = first
            .parse()
            .map_err(|_| format!("--origins {count}: --host must be an IPv4 address to count from, not `{first}`"))?;
        let host = |index: u8| Ipv4Addr::from_bits(first.to_bits().wrapping_add(index.into())).to_string();
        let server = |index| Options {
            host: host(index),
            ..one.clone()
        };
        Ok((0..count).map(server).collect())
    }

    fn into_one(self) -> Options {
        Options {
            host: self.host,
            port: self.port,
            threads: self.threads,
            ttft: self.ttft,
            load_delay: self.load_delay,
            itl: self.itl,
            jitter: self.jitter,
            seed: self.seed,
            osl: self.osl,
            fast: self.fast,
            api_key: self.api_key,
            access_logs: self.access_logs,
            ledger_capacity: self.ledger_capacity,
            keep_messages: self.keep_messages,
            fault: self.fault,
            control: self.control,
            pin_to: self.pin_to,
        }
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text} is not a number of milliseconds from 0 up, such as 20 or 0.5");
    let milliseconds: f64 = text.parse().map_err(|_| refused())?;
    Duration::try_from_secs_f64(milliseconds / 1e3).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(flags: &[&str]) -> Result<Vec<Options>, String> {
        let flags = ["ringload-mock-server"].iter().chain(flags);
        Args::try_parse_from(flags)
            .map_err(|error| error.to_string())
            .and_then(Args::into_options)
    }

    fn parse(flags: &[&str]) -> Result<Options, String> {
        parse_all(flags).map(|mut servers| servers.remove(0))
    }

    #[test]
    fn without_flags_the_options_are_the_defaults() {
        assert_eq!(format!("{:?}", parse(&[])), format!("Ok({:?})", Options::default()));
    }

    #[test]
    fn every_flag_reaches_its_option() {
        let flags = "--host ::1 --port 0 --threads 3 --ttft 1.5 --itl 0.25 --jitter 0.1 --seed 9 --osl 7 --api-key k \
                     --access-logs --ledger-capacity 5 --keep-messages --pin-to 2 --fault every:2:hang";
        let options = parse(&flags.split_whitespace().collect::<Vec<_>>()).expect("valid");
        assert_eq!((options.host.as_str(), options.port, options.threads), ("::1", 0, 3));
        assert_eq!(
            (options.ttft, options.itl),
            (Duration::from_micros(1_500), Duration::from_micros(250))
        );
        assert_eq!((options.jitter, options.seed, options.osl), (0.1, 9, Some(7)));
        assert_eq!((options.api_key.as_deref(), options.access_logs), (Some("k"), true));
        assert_eq!((options.ledger_capacity, options.pin_to), (5, Some(2)));
        assert_eq!(
            options.fault.map(|fault| fault.to_string()).as_deref(),
            Some("every:2:hang")
        );
        assert!(options.keep_messages);
        assert!(parse(&["--fast"]).expect("valid").fast);
    }

    #[test]
    fn several_servers_count_their_addresses() {
        let flags = [
            "--host",
            "127.0.0.9",
            "--origins",
            "3",
            "--control",
            "/reset_prefix_cache=503,200",
        ];
        let servers = parse_all(&flags).expect("valid");
        let hosts: Vec<&str> = servers.iter().map(|options| options.host.as_str()).collect();
        assert_eq!(hosts, ["127.0.0.9", "127.0.0.10", "127.0.0.11"]);
        assert!(
            servers
                .iter()
                .all(|options| options.port == 8000 && options.control.len() == 1)
        );
        let error = parse_all(&["--host", "localhost", "--origins", "2"]).expect_err("refused");
        assert!(error.contains("IPv4 address to count from"), "{error}");
        assert!(
            parse(&["--control", "/x"])
                .expect_err("refused")
                .contains("PATH=ANSWER")
        );
    }

    #[test]
    fn mistakes_are_refused() {
        assert!(
            parse(&["--ttft=-1"])
                .expect_err("refused")
                .contains("milliseconds from 0 up")
        );
        assert!(
            parse(&["--itl", "x"])
                .expect_err("refused")
                .contains("milliseconds from 0 up")
        );
        assert!(
            parse(&["--fault", "nothing"])
                .expect_err("refused")
                .contains("no such fault")
        );
        assert!(
            parse(&["--fast", "--itl", "1"])
                .expect_err("refused")
                .contains("cannot be used with")
        );
    }
}
