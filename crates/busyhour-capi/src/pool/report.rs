use busyhour::pool::ShutdownReport;

/// What a shutdown did and left.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_shutdown_report {
    /// Tasks that ran during the shutdown.
    pub ran: u64,
    /// Tasks that were dropped without having run.
    pub not_run: u64,
    /// Events that were dropped without having been delivered.
    pub not_delivered: u64,
    /// Workers that were still inside a task when the time was over; they end with that task.
    pub unfinished_workers: u64,
}

impl From<&ShutdownReport> for bh_shutdown_report {
    fn from(report: &ShutdownReport) -> Self {
        Self {
            ran: report.ran,
            not_run: report.not_run,
            not_delivered: report.not_delivered,
            unfinished_workers: report.unfinished_workers,
        }
    }
}
