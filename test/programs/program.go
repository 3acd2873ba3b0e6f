package programs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// Patience bounds every wait. Only a failing test waits that long.
	Patience = 90 * time.Second
	// lookAgain is the poll interval for conditions that have no notification.
	lookAgain = 25 * time.Millisecond
	// longestTail is the number of bytes of a log that a failure includes.
	longestTail = 24 << 10
)

// Options configure a process.
type Options struct {
	// Binary is the path of the built slipway.
	Binary string
	// Name identifies the process in the output of the test.
	Name string
	// Environment is the whole environment except PATH, HOME and TMPDIR, so
	// settings of the developer's shell do not change a test.
	Environment []string
	// Words are the arguments.
	Words []string
}

// Process is a running slipway. Its methods may be called from any goroutine.
type Process struct {
	name    string
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its output complete

	// mu guards the fields below. out and log are standard output and error.
	mu  sync.Mutex
	out bytes.Buffer
	log bytes.Buffer
	// listens has the address of each server by name, from the log lines that
	// announce it. Servers bind port 0, so the log is the only source.
	listens map[string]string
}

// sink writes an output of a process to a buffer, under the lock of the
// process.
type sink struct {
	process *Process
	buffer  *bytes.Buffer
}

// Write appends to the buffer. os/exec and readLog call it from their
// goroutines.
func (s sink) Write(p []byte) (int, error) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	return s.buffer.Write(p)
}

// Start starts a process and kills it at the end of the test. It does not wait
// for readiness; use Address for that.
func Start(t *testing.T, options Options) *Process {
	t.Helper()
	p := &Process{
		name: options.Name, command: exec.Command(options.Binary, options.Words...),
		exited: make(chan struct{}), listens: map[string]string{},
	}
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, options.Environment...)
	p.command.Stdout = sink{p, &p.out}
	edgeprocess.Tie(p.command)
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.readLog(stderr)
	// The log is complete only after Kill has waited for the exit.
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p.name, Tail(p.Log()))
		}
	})
	return p
}

// Tail returns the end of a long text.
func Tail(text string) string {
	if len(text) <= longestTail {
		return text
	}
	return "...\n" + text[len(text)-longestTail:]
}

// readLog copies standard error to the log and picks out the lines that
// announce a listener. It reads until the process closes the pipe, and only
// then calls Wait, which would discard unread output.
func (p *Process) readLog(stderr io.Reader) {
	defer close(p.exited)
	lines := bufio.NewScanner(io.TeeReader(stderr, sink{p, &p.log}))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Server, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "server listens" {
			p.mu.Lock()
			p.listens[line.Server] = line.Address
			p.mu.Unlock()
		}
	}
	_ = p.command.Wait() // how it ended shows in the log
}

// Name returns the name of the process in the output of the test.
func (p *Process) Name() string { return p.name }

// Log returns the log of the process so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Printed returns the standard output of the process so far.
func (p *Process) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Address waits until a server of the process listens, and returns its address.
// The test fails after Patience.
func (p *Process) Address(t *testing.T, server string) (address string) {
	t.Helper()
	Eventually(t, func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if address = p.listens[server]; address == "" {
			return fmt.Errorf("the server %s of %s does not listen:\n%s", server, p.name, Tail(p.log.String()))
		}
		return nil
	})
	return address
}

// Kill sends SIGKILL and waits for the exit, like a node that loses power. It
// may be called more than once.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have exited
	<-p.exited
}

// Stop sends SIGTERM and waits for a graceful shutdown. A shutdown that takes
// longer than Patience, or that ends with an error, fails the test.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(Patience):
		t.Fatalf("%s does not stop:\n%s", p.name, Tail(p.Log()))
	}
	if state := p.command.ProcessState; !state.Success() {
		t.Errorf("%s ended with %v:\n%s", p.name, state, Tail(p.Log()))
	}
}

// Eventually polls a condition until it returns nil, and fails the test after
// Patience.
func Eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := Await(ctx, condition); err != nil {
		t.Fatal(err)
	}
}

// Await polls a condition until it returns nil or the context is done. It
// returns the last error from before that point.
func Await(ctx context.Context, condition func(ctx context.Context) error) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // later errors only report the expired context
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("in vain: %w", last)
		}
	}
}
