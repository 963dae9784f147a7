use super::{
    bh_timer, bh_timers,
    ids::{IdGuard, TimerIds},
    label::label,
};
use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, RunCall, bh_drop_fn, bh_run_fn, borrow, guard, live,
        options, read_options,
    },
    executor::{bh_executor, executor_of},
    result::bh_result,
    timers::cancel::bh_cancel,
};
use busyhour::{
    clock::Instant,
    task::Executor,
    timer::{MissedTicks, TimerBuilder, TimerHandle, Timers},
};
use std::{
    ffi::{c_char, c_void},
    sync::Arc,
    time::Duration,
};

/// Runs, and returns after how many nanoseconds it is to run again; 0 ends the timer.
pub type bh_next_delay_fn = Option<unsafe extern "C-unwind" fn(data: *mut c_void) -> u64>;

/// The function of a [`bh_next_delay_fn`] that is not NULL.
type NextDelayCall = unsafe extern "C-unwind" fn(*mut c_void) -> u64;

/// Options of a timer; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_timer_options {
    /// `sizeof(bh_timer_options)`
    pub size: usize,
    /// The first run is due so many nanoseconds from now; default: at once, or one period from now.
    pub delay_ns: u64,
    /// Instead of a delay: when the first run is due, by the clock of the service (`bh_timers_now`).
    pub deadline_ns: u64,
    /// Not 0: repeats with this period, or with this pause after each run (`fixed_delay`).
    pub period_ns: u64,
    /// How many nanoseconds later than due it may run, to share a wake-up with others.
    pub slack_ns: u64,
    /// A number for `bh_timers_cancel_owner`, for example that of what the timer is for; 0: none.
    pub owner: u64,
    /// The name of its class, for lists and `bh_timers_cancel_label`; NULL: none. A shard of a
    /// service has room for 1,024 of them, and a process for 4,096.
    pub label: *const c_char,
    /// Where an int goes that identifies the timer while it is not over; NULL: it gets none. Ints are at least 1, and are
    /// used again, the one released first first.
    pub out_id: *mut i32,
    /// Not 0: `period_ns`, which then is not 0 either, is a pause between the end of a run and the next one.
    pub fixed_delay: u32,
    /// What becomes of ticks that were missed: a `bh_missed`.
    pub missed: u32,
}

options!(bh_timer_options, 72 {
    size,
    delay_ns,
    deadline_ns,
    period_ns,
    slack_ns,
    owner,
    label,
    out_id,
    fixed_delay,
    missed,
});

/// What a periodic timer does with ticks that it has missed.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_missed {
    /// Skips them and keeps its grid.
    BH_MISSED_SKIP = 0,
    /// Runs each of them, one after the other.
    BH_MISSED_BURST = 1,
    /// Skips them and begins a new grid.
    BH_MISSED_DELAY = 2,
}

/// Runs `run(data)` once, `delay_ns` from now, on `on` (NULL: on the thread that delivers it). `drop` frees `data` after the
/// run, when the timer is cancelled, or at once if the call fails. `out` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_after(
    timers: *mut bh_timers,
    delay_ns: u64,
    on: *const bh_executor,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut bh_timer,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        // The hook of an earlier deadline may free the handle.
        let timers = live(timers, "timers")?.timers.clone();
        let timer = timers.timer().after(Duration::from_nanos(delay_ns));
        let handle = timer.on_shared(executor_of(on)?).run(move || run.call())?;
        Out::optional(out).write(bh_timer::new(handle));
        Ok(())
    })
}

/// Runs `run(data)` as `options` say, which may be NULL: at once, and once. See `bh_timers_after` for the rest.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_add(
    timers: *mut bh_timers,
    options: *const bh_timer_options,
    on: *const bh_executor,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut bh_timer,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let handle = NewTimer::read(timers, options, on)?.run(run)?;
        Out::optional(out).write(bh_timer::new(handle));
        Ok(())
    })
}

/// Runs `run(data)`, and again after as many nanoseconds as it returns, counted from when it was due, until it returns 0.
/// A period in the options is refused. See `bh_timers_after` for the rest.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_add_variable(
    timers: *mut bh_timers,
    options: *const bh_timer_options,
    on: *const bh_executor,
    run: bh_next_delay_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut bh_timer,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let handle = NewTimer::read(timers, options, on)?.run_variable(run)?;
        Out::optional(out).write(bh_timer::new(handle));
        Ok(())
    })
}

/// Cancels the timer that `timer` names and runs `run(data)` as `options` say instead; `timer` then names the new one. If
/// the call fails, the old timer stays. `out_cancel`, what became of the old one, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_replace(
    timers: *mut bh_timers,
    timer: *mut bh_timer,
    options: *const bh_timer_options,
    on: *const bh_executor,
    run: bh_run_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out_cancel: *mut bh_cancel,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let old = borrow(timer.cast_const(), "timer")?.handle();
        let new = NewTimer::read(timers, options, on)?;
        Out::required(timer, "timer")?.write(bh_timer::new(new.run(run)?));
        Out::optional(out_cancel).write(new.service.cancel(&old).into());
        Ok(())
    })
}

/// `bh_timers_replace` by a timer whose callback returns its delays, as that of `bh_timers_add_variable`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_timers_replace_variable(
    timers: *mut bh_timers,
    timer: *mut bh_timer,
    options: *const bh_timer_options,
    on: *const bh_executor,
    run: bh_next_delay_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out_cancel: *mut bh_cancel,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let run = Callback::new(run, data).ok_or_else(|| Failure::null("run"))?;
        let old = borrow(timer.cast_const(), "timer")?.handle();
        let new = NewTimer::read(timers, options, on)?;
        Out::required(timer, "timer")?.write(bh_timer::new(new.run_variable(run)?));
        Out::optional(out_cancel).write(new.service.cancel(&old).into());
        Ok(())
    })
}

/// A timer that is to be added, with its arguments read.
struct NewTimer {
    service: Timers,
    ids: Arc<TimerIds>,
    options: bh_timer_options,
    executor: Arc<dyn Executor>,
    label: &'static str,
}

impl NewTimer {
    fn read(
        timers: *const bh_timers,
        options: *const bh_timer_options,
        on: *const bh_executor,
    ) -> Outcome<Self> {
        let options = read_options(options, "options")?;
        // The hook of an earlier deadline may free the handle.
        let handle = live(timers, "timers")?;
        Ok(Self {
            service: handle.timers.clone(),
            ids: Arc::clone(&handle.ids),
            options,
            executor: executor_of(on)?,
            label: label(options.label)?,
        })
    }

    fn add(
        &self,
        start: impl FnOnce(
            TimerBuilder<'_, Arc<dyn Executor>>,
            Option<IdGuard>,
        ) -> Result<TimerHandle, busyhour::timer::AddError>,
    ) -> Outcome<TimerHandle> {
        let builder = self.builder()?;
        if self.options.out_id.is_null() {
            return Ok(start(builder, None)?);
        }
        let guard = self.ids.reserve()?;
        let ticket = guard.ticket();
        let handle = start(builder, Some(guard))?;
        ticket.set(&self.ids, handle);
        Out::optional(self.options.out_id).write(ticket.id());
        Ok(handle)
    }

    fn run(&self, run: Callback<RunCall>) -> Outcome<TimerHandle> {
        let period = Duration::from_nanos(self.options.period_ns);
        if self.options.fixed_delay != 0 && period.is_zero() {
            return Err(Failure::invalid(
                "options.fixed_delay: it needs a period_ns, which is the pause after each run",
            ));
        }
        self.add(|builder, id| {
            let call = move || {
                let _kept = &id;
                run.call();
            };
            match (self.options.period_ns, self.options.fixed_delay) {
                (0, _) => builder.run(call),
                (_, 0) => builder.run_every(period, call),
                _ => builder.run_with_fixed_delay(period, call),
            }
        })
    }

    fn run_variable(&self, run: Callback<NextDelayCall>) -> Outcome<TimerHandle> {
        if self.options.period_ns != 0 {
            return Err(Failure::invalid(
                "options.period_ns: this timer returns its delays",
            ));
        }
        self.add(|builder, id| {
            builder.run_with_next_delay(move || {
                let _kept = &id;
                Duration::from_nanos(run.call())
            })
        })
    }

    fn builder(&self) -> Outcome<TimerBuilder<'_, Arc<dyn Executor>>> {
        let options = &self.options;
        let mut builder = self.service.timer().label(self.label);
        builder = builder
            .slack(Duration::from_nanos(options.slack_ns))
            .missed(self.missed()?);
        if options.owner != 0 {
            builder = builder.owner(options.owner);
        }
        match (options.delay_ns, options.deadline_ns) {
            (0, 0) => {}
            (delay_ns, 0) => builder = builder.after(Duration::from_nanos(delay_ns)),
            (0, deadline_ns) => builder = builder.at(Instant::from_nanos(deadline_ns)),
            _ => {
                return Err(Failure::invalid(
                    "options: both delay_ns and deadline_ns are set",
                ));
            }
        }
        Ok(builder.on_shared(Arc::clone(&self.executor)))
    }

    fn missed(&self) -> Outcome<MissedTicks> {
        const SKIP: u32 = bh_missed::BH_MISSED_SKIP as u32;
        const BURST: u32 = bh_missed::BH_MISSED_BURST as u32;
        const DELAY: u32 = bh_missed::BH_MISSED_DELAY as u32;
        match self.options.missed {
            SKIP => Ok(MissedTicks::Skip),
            BURST => Ok(MissedTicks::Burst),
            DELAY => Ok(MissedTicks::Delay),
            other => Err(Failure::invalid(format!(
                "options.missed: {other} is no bh_missed"
            ))),
        }
    }
}
