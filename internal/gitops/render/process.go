package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/render/frame"
)

// process is a worker that runs. One session at a time owns it; only kill,
// memory and stderr are used by other goroutines.
type process struct {
	command *exec.Cmd
	in      *os.File
	out     *os.File
	writer  *frame.Writer
	reader  *frame.Reader
	stderr  *tail
	exited  chan struct{}
	once    sync.Once
	missing []string
	renders int
	// idleTimer ends the worker when it has waited for too long.
	idleTimer *time.Timer
}

// startLimit is how long a worker may take to be ready.
const startLimit = 30 * time.Second

// cpuFactor is how many renders' worth of CPU time a worker has in its life. It
// is replaced when half of that is used.
const cpuFactor = 20

// startProcess starts a worker and waits until it has limited itself. A worker
// that is not ready within startLimit is killed, and so is one whose caller
// gives up: a half-confined worker is never used.
func startProcess(ctx context.Context, options *Options, folder string) (*process, error) {
	p, err := launch(options, folder)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	timer := time.AfterFunc(startLimit, p.kill)
	defer timer.Stop()
	// The CPU limit is for the life of the worker; each render also has its own
	// timeout.
	settings := frame.Settings{MemoryBytes: options.MemoryBytes, CPUSeconds: cpuFactor * int64(max(options.Timeout, time.Second)/time.Second)}
	if err := p.send(frame.Hello, settings); err != nil {
		return nil, p.failure(err)
	}
	payload, err := p.reader.Expect(frame.Ready)
	if err != nil {
		return nil, p.failure(err)
	}
	var state frame.State
	if err := json.Unmarshal(payload, &state); err != nil {
		return nil, p.failure(err)
	}
	p.missing = append(p.missing, state.Missing...)
	return p, nil
}

// failure ends a worker that did not start properly, and adds the first line of
// its error output.
func (p *process) failure(err error) error {
	p.kill()
	<-p.exited
	if last := p.stderr.firstLine(); last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// launch starts the program, without a network if the system lets us.
func launch(options *Options, folder string) (*process, error) {
	var last error
	// The first isolation that the kernel permits wins, from the strictest to
	// none.
	for _, isolation := range isolations() {
		p := &process{exited: make(chan struct{}), stderr: &tail{}}
		if last != nil {
			p.missing = []string{"a network of their own (" + last.Error() + ")"}
		}
		p.command = exec.Command(options.Command[0], options.Command[1:]...)
		p.command.Dir = folder
		// No credentials, no path to programs, one time zone for all.
		p.command.Env = []string{"TZ=UTC", "GOMAXPROCS=1", "GOTRACEBACK=single"}
		p.command.SysProcAttr = isolation
		p.command.Stderr = p.stderr
		if last = p.run(options); last == nil {
			return p, nil
		}
		if !errors.Is(last, os.ErrPermission) && !isUnsupported(last) {
			break
		}
	}
	return nil, last
}

// run starts the command with its pipes.
func (p *process) run(options *Options) error {
	// Pipes of our own: Cmd.Wait closes those of StdoutPipe while the session
	// still reads.
	childIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return err
	}
	defer childOut.Close()
	p.command.Stdin, p.command.Stdout = childIn, childOut
	// The child has its own copies of the pipe ends; ours are closed on return,
	// so that the end of the child is seen as the end of the stream.
	if err := p.command.Start(); err != nil {
		in.Close()
		out.Close()
		return err
	}
	p.in, p.out = in, out
	p.writer = frame.NewWriter(in)
	p.reader = frame.NewReader(out, options.OutputBytes+1<<20)
	go func() {
		_ = p.command.Wait() // how it ended is in ProcessState
		in.Close()
		close(p.exited)
	}()
	return nil
}

// kill ends the worker. It can be called at any time, and again. The read end
// is closed after the exit, so that a session cannot block on a pipe that is
// still held open.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.command.Process.Kill() // it may have ended
		go func() {
			<-p.exited
			p.out.Close()
		}()
	})
}

// send writes one message and flushes.
func (p *process) send(kind frame.Type, value any) error {
	if err := p.writer.SendJSON(kind, value); err != nil {
		return err
	}
	return p.writer.Flush()
}

// memory is the resident memory of the worker, or 0 if it cannot be read.
// RLIMIT_DATA is the hard bound; this measure allows a clear error message
// before an allocation of the worker fails.
func (p *process) memory() int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// tail keeps the beginning and the end of a worker's error output: a crash
// prints its reason first, and the place last.
type tail struct {
	mu          sync.Mutex
	first, last []byte
}

// tailBytes bounds each half of the kept output.
const tailBytes = 4 << 10

// Write keeps some of it. It never fails and never blocks, so that a worker
// that prints without end is not stopped by a full pipe.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := text
	if room := tailBytes - len(t.first); room > 0 {
		head := rest[:min(room, len(rest))]
		t.first, rest = append(t.first, head...), rest[len(head):]
	}
	t.last = append(t.last, rest...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(text), nil
}

// contains reports whether the kept output contains one of the words.
func (t *tail) contains(words ...string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.first) + "\n" + string(t.last)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// firstLine is the reason of a crash.
func (t *tail) firstLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(string(t.first)), "\n")
	return line[:min(len(line), 200)]
}
