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
	// Patience bounds every wait. Only a test that fails waits so long.
	Patience = 90 * time.Second
	// lookAgain is the pause between two looks at something that says nothing by
	// itself.
	lookAgain = 25 * time.Millisecond
	// longestTail is how much of a log is shown.
	longestTail = 24 << 10
)

// Options are what a process is started with.
type Options struct {
	// Binary is the built slipway.
	Binary string
	// Name is what the log of the test calls the process.
	Name string
	// Environment is all that it gets but for PATH, HOME and TMPDIR.
	Environment []string
	// Words are its arguments.
	Words []string
}

// Process is a running slipway.
type Process struct {
	name    string
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its output complete

	mu  sync.Mutex
	out bytes.Buffer
	log bytes.Buffer
	// listens has the address of each server that the log has told of.
	listens map[string]string
}

// sink is one of the outputs of a process.
type sink struct {
	process *Process
	buffer  *bytes.Buffer
}

func (s sink) Write(p []byte) (int, error) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	return s.buffer.Write(p)
}

// Start runs a process until the end of the test. It may be far from ready.
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
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p.name, Tail(p.Log()))
		}
	})
	return p
}

// Tail is the end of a long text.
func Tail(text string) string {
	if len(text) <= longestTail {
		return text
	}
	return "...\n" + text[len(text)-longestTail:]
}

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

// Name is what the test calls the process.
func (p *Process) Name() string { return p.name }

// Log is what the process has logged so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Printed is what the process has written to its standard output so far.
func (p *Process) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Address waits until a server of the process listens, and says where.
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

// Kill ends the process as a machine that loses its power does.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may be over
	<-p.exited
}

// Stop ends the process in good order.
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

// Eventually waits until there is no error.
func Eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if err := Await(ctx, condition); err != nil {
		t.Fatal(err)
	}
}

// Await waits until there is no error, or the time is over.
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
			last = err // later ones say only that the time is over
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("in vain: %w", last)
		}
	}
}
