//! `busyhour show call-records`: calls that ended, as a table, as JSON or as CSV.

use super::{Failure, ShowList, subjects};
use crate::{console, server::CallOutcome, web::call_record_table};
use busyhour_store::CallRecordRow;
use clap::Args;
use serde::Deserialize;

#[derive(Debug, Args)]
pub(super) struct ShowCallRecords {
    /// Only calls in which USER called, was called or answered
    #[arg(long, value_name = "USER")]
    user: Option<String>,

    /// Only calls that began at TIME or later: 2026-11-22T08:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME")]
    from: Option<String>,

    /// Only calls that began before TIME
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Only calls with this outcome
    #[arg(long, value_parser = CallOutcome::ALL.map(CallOutcome::as_str))]
    outcome: Option<String>,

    /// Print every such call as CSV (RFC 4180): times in UTC, durations in seconds
    #[arg(long, conflicts_with_all = ["json", "watch", "limit", "sort", "filter", "columns"])]
    csv: bool,

    #[command(flatten)]
    list: ShowList,
}

/// A page of the server's answer.
#[derive(Deserialize)]
struct CallRecordPage {
    call_records: Vec<CallRecordRow>,
    next: Option<String>,
}

impl ShowCallRecords {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.csv {
            true => self.export(),
            false => {
                let query = self.query(self.list.table.asked_len(), None);
                self.list.run(&subjects::CALL_RECORDS, &query)
            }
        }
    }

    /// Page by page, so that a million records need little memory.
    fn export(&self) -> Result<(), Failure> {
        let server = self.list.server.find()?;
        let mut after = None;
        loop {
            let path = format!("{PATH}{}", self.query(PAGE_LEN, after.as_deref()));
            let body = server.get(&path).map_err(Failure::running)?;
            let page: CallRecordPage = serde_json::from_str(&body).map_err(Failure::running)?;
            let text = call_record_table::text(&page.call_records, after.is_none());
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let is_read = text.is_empty()
                || console::print_while_read(text.to_owned()).map_err(Failure::running)?;
            after = page.next;
            if after.is_none() || !is_read {
                return Ok(());
            }
        }
    }

    fn query(&self, limit: usize, after: Option<&str>) -> String {
        let limit = limit.to_string();
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("limit", Some(limit.as_str())),
            ("after", after),
            ("user", self.user.as_deref()),
            ("from", self.from.as_deref()),
            ("until", self.until.as_deref()),
            ("outcome", self.outcome.as_deref()),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        format!("?{}", query.finish())
    }
}

const PATH: &str = "/api/v1/call-records";
const PAGE_LEN: usize = 10_000;
