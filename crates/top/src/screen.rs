//! The screen: shows the lines, takes keys, and gives the terminal back as it was on every way out.

use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use serde_json::Value;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;
use tokamak_observe::text::for_terminal;

use crate::figures::sites;
use crate::text::{Style, TextLine, cut};
use crate::view::{Order, View};
use crate::{Address, EVERY, client};

/// How long a key or a signal may wait for its effect: too short to be noticed.
const GLANCE: Duration = Duration::from_millis(100);
/// Longest pause before a server that does not answer is asked again.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Shows the server until a key or a signal ends it, or the terminal is gone.
pub fn watch(address: &Address, token: Option<&str>, first: Value) -> io::Result<()> {
    let signals = Signals::take()?;
    let readings = ask(address.clone(), token.map(str::to_owned));
    let terminal = Terminal::take()?;
    let mut screen = Screen {
        out: io::stdout(),
        address,
        early: None,
        late: first,
        lost: None,
        site: None,
        order: Order::State,
        top: 0,
        is_paused: false,
    };
    let outcome = screen.run(&readings, &signals, &terminal);
    drop(terminal);
    match outcome {
        // The terminal is gone, and with it who would read of an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The signals that have come.
struct Signals {
    /// The view is to end.
    ended: Arc<AtomicBool>,
    /// The process is to be stopped, for its shell.
    stopped: Arc<AtomicBool>,
    /// The process goes on. Its shell may have used the terminal meanwhile.
    continued: Arc<AtomicBool>,
}

impl Signals {
    fn take() -> io::Result<Signals> {
        let [ended, stopped, continued] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].map(|signal| (signal, &ended));
        for (signal, flag) in all.into_iter().chain([(SIGTSTP, &stopped), (SIGCONT, &continued)]) {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Signals { ended, stopped, continued })
    }
}

/// Documents from a thread of their own, so that a server that hangs holds up no key.
fn ask(address: Address, token: Option<String>) -> Receiver<Result<Value, String>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut pause = EVERY;
        loop {
            thread::sleep(pause);
            let reading = client::document(&address, token.as_deref());
            pause = if reading.is_ok() { EVERY } else { (pause * 2).min(LONGEST_PAUSE) };
            if sender.send(reading).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The terminal while it is ours.
struct Terminal;

impl Terminal {
    fn take() -> io::Result<Terminal> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |reason| {
            give_back();
            before(reason);
        }));
        Terminal::enter().map(|()| Terminal)
    }

    fn enter() -> io::Result<()> {
        enable_raw_mode()?;
        let entered = execute!(io::stdout(), EnterAlternateScreen, Hide);
        if entered.is_err() {
            give_back();
        }
        entered
    }

    /// Stops the process, as the key for that does elsewhere, until it is continued.
    fn stop(&self) -> io::Result<()> {
        give_back();
        emulate_default_handler(SIGTSTP)
    }

    /// Takes the terminal anew, which the shell had meanwhile.
    fn go_on(&self) -> io::Result<()> {
        disable_raw_mode()?;
        Terminal::enter()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // A terminal that is gone needs nothing back.
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

struct Screen<'a> {
    out: Stdout,
    address: &'a Address,
    early: Option<Value>,
    late: Value,
    lost: Option<String>,
    /// The site that is shown; all if there is none.
    site: Option<String>,
    order: Order,
    /// Lines that are above the screen.
    top: usize,
    is_paused: bool,
}

impl Screen<'_> {
    fn run(
        &mut self,
        readings: &Receiver<Result<Value, String>>,
        signals: &Signals,
        terminal: &Terminal,
    ) -> io::Result<()> {
        let mut is_new = true;
        while !signals.ended.load(Ordering::Relaxed) {
            if signals.stopped.swap(false, Ordering::Relaxed) {
                terminal.stop()?;
            }
            if signals.continued.swap(false, Ordering::Relaxed) {
                terminal.go_on()?;
                is_new = true;
            }
            while let Ok(reading) = readings.try_recv() {
                is_new |= self.take(reading);
            }
            if is_new {
                self.draw()?;
            }
            is_new = event::poll(GLANCE)?;
            // What is no key is another size, which is asked for when the screen is drawn.
            if is_new
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && self.ends_at(key, signals)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether there is something new to show.
    fn take(&mut self, reading: Result<Value, String>) -> bool {
        match reading {
            Ok(_) if self.is_paused => return false,
            Ok(reading) => {
                self.early = Some(std::mem::replace(&mut self.late, reading));
                self.lost = None;
            }
            Err(lost) => self.lost = Some(lost),
        }
        true
    }

    /// Whether the key ends the view; if not, it has had its effect.
    fn ends_at(&mut self, key: KeyEvent, signals: &Signals) -> bool {
        let page = size().map_or(1, |(_, rows)| usize::from(rows).saturating_sub(2).max(1));
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            // The terminal makes no signal of it while it is ours.
            KeyCode::Char('z') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                signals.stopped.store(true, Ordering::Relaxed);
            }
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Tab => self.choose_site(1),
            KeyCode::BackTab => self.choose_site(-1),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::PageDown => self.top += page,
            KeyCode::PageUp => self.top = self.top.saturating_sub(page),
            KeyCode::Home => self.top = 0,
            _ => {}
        }
        false
    }

    /// Shows the site that is so many places behind the present one; all stand before the first.
    fn choose_site(&mut self, places: isize) {
        let mut choices = vec![None];
        choices.extend(sites(&self.late).into_iter().map(Some));
        let now = choices.iter().position(|site| *site == self.site.as_deref()).unwrap_or(0);
        let count = choices.len() as isize;
        let next = (now as isize + places).rem_euclid(count);
        self.site = choices[next as usize].map(str::to_owned);
        self.top = 0;
    }

    fn draw(&mut self) -> io::Result<()> {
        let (columns, rows) = size()?;
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        if rows < 2 || columns < 2 {
            return Ok(());
        }
        // A reload may have taken the site away.
        self.site.take_if(|site| !sites(&self.late).contains(&site.as_str()));
        let view = View {
            address: self.address,
            early: self.early.as_ref(),
            late: &self.late,
            site: self.site.as_deref(),
            order: self.order,
            room: columns,
        };
        let lines = view.lines(self.lost.as_deref());
        let height = rows - 1;
        self.top = self.top.min(lines.len().saturating_sub(height));
        let shown = lines.iter().skip(self.top).chain(std::iter::repeat(&EMPTY)).take(height);
        for (row, line) in shown.enumerate() {
            self.write(row, line.style, &line.cut(columns))?;
        }
        let pause = if self.is_paused { "space go on (paused)" } else { "space pause" };
        let site = for_terminal(self.site.as_deref().unwrap_or("all"));
        let order = self.order.name();
        let long = format!("q quit  s workers: {order}  tab site: {site}  {pause}  ↑↓ scroll");
        // Where not all of it fits, each key has a word.
        let pause = if self.is_paused { "space go on" } else { "space pause" };
        let short = format!("q quit  s order  tab site  {pause}");
        let keys = if crate::text::columns(&long) <= columns { long } else { short };
        self.write(rows - 1, Style::Head, &cut(&keys, columns))?;
        self.out.flush()
    }

    fn write(&mut self, row: usize, style: Style, text: &str) -> io::Result<()> {
        queue!(self.out, MoveTo(0, row as u16))?;
        match style {
            Style::Plain => {}
            Style::Head => queue!(self.out, SetAttribute(Attribute::Bold))?,
            Style::Bad => queue!(self.out, SetForegroundColor(Color::Red))?,
        }
        // It may be as wide as the screen, where the last column would be cleared afterwards.
        let reset = SetAttribute(Attribute::Reset);
        queue!(self.out, Clear(ClearType::UntilNewLine), Print(text), reset)
    }
}

static EMPTY: TextLine = TextLine::EMPTY;
