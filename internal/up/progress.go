package up

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	spinner        = `|/-\`
	redrawInterval = 120 * time.Millisecond
	// narrowest is the width below which lines are not shortened further.
	narrowest = 20
)

// phase is how far a part has come.
type phase int

const (
	phaseWaiting phase = iota // its turn has not come
	phaseStarting
	phaseReady
	phaseFailed
)

// progressLine is what is shown of one part.
type progressLine struct {
	name  string
	phase phase
	// note is what the part waits for, or what it has become.
	note  string
	began time.Time
	took  time.Duration
}

// progress shows the start of the parts. On a terminal it redraws one line per
// part; elsewhere it prints one line per change.
type progress struct {
	// mu guards the lines, and the writer while a frame is drawn.
	mu    sync.Mutex
	w     io.Writer
	width func() int // nil: not a terminal
	lines []progressLine
	drawn bool
	turns int
	// quit ends the redrawing, which closes ended.
	quit, ended chan struct{}
}

// newProgress starts to show the named parts. The caller must call finish.
func newProgress(w io.Writer, width func() int, names []string) *progress {
	p := &progress{w: w, width: width, quit: make(chan struct{}), ended: make(chan struct{})}
	for _, name := range names {
		p.lines = append(p.lines, progressLine{name: name})
	}
	if width == nil {
		// There is no goroutine to wait for without a terminal.
		close(p.ended)
		return p
	}
	go p.redraw()
	return p
}

// starting shows that a part is starting and what it waits for.
func (p *progress) starting(name, note string) { p.change(name, phaseStarting, note) }

// ready shows that a part can be used.
func (p *progress) ready(name, note string) { p.change(name, phaseReady, note) }

// failed shows that a part will not start. What it waited for stays visible.
func (p *progress) failed(name string) { p.change(name, phaseFailed, "") }

// finish draws the lines for the last time. It may be called more than once.
func (p *progress) finish() {
	p.mu.Lock()
	// quit is closed once, under the lock.
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.mu.Unlock()
	<-p.ended
}

// change updates the line of a part. A note that repeats the last one is
// dropped, so that a log has it once.
func (p *progress) change(name string, to phase, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.lines {
		line := &p.lines[i]
		if line.name != name || (line.phase == to && line.note == note) {
			continue
		}
		if line.began.IsZero() {
			line.began = time.Now()
		}
		line.phase, line.took = to, time.Since(line.began)
		// A failed part keeps the note of what it waited for.
		if to != phaseFailed {
			line.note = note
		}
		if p.width == nil {
			fmt.Fprintln(p.w, plain(*line))
		}
	}
}

// redraw draws at an interval until quit is closed, and then once more.
func (p *progress) redraw() {
	defer close(p.ended)
	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()
	for {
		p.draw()
		select {
		case <-tick.C:
		case <-p.quit:
			p.draw()
			return
		}
	}
}

// draw moves the cursor back over the last frame and writes the next one.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var up string
	if p.drawn {
		up = fmt.Sprintf("\x1b[%dA", len(p.lines))
	}
	io.WriteString(p.w, up+frame(p.lines, time.Now(), p.turns, p.width()))
	p.drawn = true
	p.turns++
}

// frame renders all lines for a terminal. No line is wider than the terminal:
// a wrapped one would put the next frame in the wrong place.
func frame(lines []progressLine, now time.Time, turns, width int) string {
	// The notes start in one column behind the longest name.
	column := 0
	for _, line := range lines {
		column = max(column, len(line.name))
	}
	var b strings.Builder
	for _, line := range lines {
		mark, elapsed := "  ", ""
		switch line.phase {
		case phaseStarting:
			mark = " " + string(spinner[turns%len(spinner)])
			elapsed = now.Sub(line.began).Truncate(time.Second).String()
		case phaseReady:
			mark, elapsed = "ok", tenths(line.took)
		case phaseFailed:
			mark, elapsed = "!!", tenths(line.took)
		}
		text := fmt.Sprintf("%s  %-*s  %s", mark, column, line.name, line.note)
		if elapsed != "" {
			text = strings.TrimRight(text, " ") + "  " + elapsed
		}
		// \x1b[K clears what is left of a longer line drawn before.
		b.WriteString("\r" + shorten(strings.TrimRight(text, " "), width) + "\x1b[K\n")
	}
	return b.String()
}

// plain formats a change for output that is no terminal.
func plain(line progressLine) string {
	switch line.phase {
	case phaseReady:
		return fmt.Sprintf("%s: %s after %s", line.name, line.note, tenths(line.took))
	case phaseFailed:
		return fmt.Sprintf("%s: failed after %s", line.name, tenths(line.took))
	default:
		return line.name + ": " + line.note
	}
}

// shorten leaves the last column empty: some terminals wrap when it is filled.
// A text that is cut ends in dots.
func shorten(text string, width int) string {
	runes := []rune(text)
	limit := max(width, narrowest) - 1
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-3]) + "..."
}

// tenths rounds a duration for display.
func tenths(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
