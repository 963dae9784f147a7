//! The terminal: drawing, and keys.

use super::{
    ServerLook, look,
    view::{Figure, Queue, View},
};
use crate::{
    cli::{Failure, running_server::RunningServer},
    console,
};
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout},
    style::{Color, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Paragraph, Row, Table},
};
use std::{
    io::stdout,
    time::{Duration, Instant},
};

/// Draws until a key or the count ends it. The terminal is as before then, also after a
/// panic.
pub(super) fn run(
    server: &RunningServer,
    every: Duration,
    count: Option<u64>,
) -> Result<(), Failure> {
    let first = look(server).map_err(Failure::running)?;
    let mut terminal = ratatui::init();
    let ended = Screen {
        server,
        every,
        left: count.unwrap_or(u64::MAX),
        is_stopped: false,
        has_colours: console::is_coloured(&stdout()),
    }
    .follow(&mut terminal, first);
    ratatui::restore();
    ended.map_err(Failure::running)
}

struct Screen<'s> {
    server: &'s RunningServer,
    every: Duration,
    left: u64,
    is_stopped: bool,
    has_colours: bool,
}

impl Screen<'_> {
    fn follow(
        &mut self,
        terminal: &mut DefaultTerminal,
        mut before: ServerLook,
    ) -> Result<(), String> {
        // At once, with the rates since the server began.
        let mut view = View::between(&before, &before);
        let mut next = Instant::now() + self.every.min(FIRST);
        while self.left > 0 {
            let drawn = terminal.draw(|frame| self.draw(frame, &view));
            drawn.map_err(|error| error.to_string())?;
            if self.is_ended(next).map_err(|error| error.to_string())? {
                return Ok(());
            }
            if Instant::now() < next || self.is_stopped {
                continue;
            }
            let now = look(self.server)?;
            view = View::between(&before, &now);
            (before, next) = (now, Instant::now() + self.every);
            self.left -= 1;
        }
        Ok(())
    }

    /// Waits for a key until `next`.
    fn is_ended(&mut self, next: Instant) -> std::io::Result<bool> {
        let wait = match self.is_stopped {
            true => self.every,
            false => next.saturating_duration_since(Instant::now()),
        };
        if !event::poll(wait)? {
            return Ok(false);
        }
        // A new size is drawn by the next round.
        let Event::Key(key) = event::read()? else {
            return Ok(false);
        };
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind != KeyEventKind::Press => {}
            KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
            _ if is_interrupt => return Ok(true),
            KeyCode::Char('p' | ' ') => self.is_stopped = !self.is_stopped,
            KeyCode::Char('+') => self.every = (self.every / 2).max(EVERY_MIN),
            KeyCode::Char('-') => self.every = (self.every * 2).min(EVERY_MAX),
            _ => {}
        }
        Ok(false)
    }

    fn draw(&self, frame: &mut Frame<'_>, view: &View) {
        let figures_len = view.figures.len().div_ceil(COLUMNS) as u16 + 2;
        let parts = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(figures_len),
            Constraint::Min(3),
            Constraint::Length(1),
        ]);
        let [head, figures, queues, keys] = parts.areas(frame.area());
        frame.render_widget(self.head(view), head);
        frame.render_widget(figures_table(&view.figures), figures);
        frame.render_widget(self.queues_table(&view.queues), queues);
        let every = self.every.as_secs_f64();
        let stopped = if self.is_stopped { "stopped; " } else { "" };
        let said = format!("{stopped}every {every} s   q ends   p stops   + - how often");
        frame.render_widget(Paragraph::new(said).style(Style::new().dim()), keys);
    }

    fn head(&self, view: &View) -> Paragraph<'_> {
        let is_well = view.health == "ok";
        let colour = if is_well { Color::Green } else { Color::Yellow };
        let health = Span::styled(view.health.clone(), self.coloured(colour));
        let (hours, minutes) = (view.uptime_s / 3600, view.uptime_s / 60 % 60);
        let seconds = view.uptime_s % 60;
        Paragraph::new(Line::from(vec![
            "busyhour ".bold(),
            format!(
                "{}  up {hours}:{minutes:02}:{seconds:02}  ",
                self.server.name()
            )
            .into(),
            health,
        ]))
    }

    fn queues_table(&self, queues: &[Queue]) -> Table<'static> {
        let rows = queues.iter().map(|queue| {
            let row = Row::new([
                queue.waiting.to_string(),
                queue.most.to_string(),
                format!("{:.1} ms", queue.oldest_ms),
                queue.kind.clone(),
                queue.name.clone(),
            ]);
            match queue.is_high {
                true => row.style(self.coloured(Color::Red)),
                false => row,
            }
        });
        let widths = [8, 8, 12, 14, 40].map(Constraint::Length);
        let head = Row::new(["waiting", "most", "oldest", "kind", "queue"]).bold();
        Table::new(rows.collect::<Vec<_>>(), widths)
            .header(head)
            .block(Block::bordered().title("queues"))
    }

    fn coloured(&self, colour: Color) -> Style {
        match self.has_colours {
            true => Style::new().fg(colour),
            false => Style::new().bold(),
        }
    }
}

/// The figures from top to bottom, in columns.
fn figures_table(figures: &[Figure]) -> Table<'static> {
    let rows_len = figures.len().div_ceil(COLUMNS);
    let cell = |figure: Option<&Figure>| {
        figure.map_or([String::new(), String::new()], |figure| {
            let name = format!("{} {}", figure.group, figure.name);
            [name, format!("{:>10}", figure.text())]
        })
    };
    let rows = (0..rows_len).map(|row| {
        let column = |column: usize| cell(figures.get(row + column * rows_len));
        Row::new((0..COLUMNS).flat_map(column).collect::<Vec<_>>())
    });
    let widths = [30, 12, 30, 12].map(Constraint::Length);
    Table::new(rows.collect::<Vec<_>>(), widths).block(Block::bordered().title("now"))
}

const COLUMNS: usize = 2;
/// The first rates come soon.
const FIRST: Duration = Duration::from_millis(500);
const EVERY_MIN: Duration = Duration::from_millis(250);
const EVERY_MAX: Duration = Duration::from_secs(60);
