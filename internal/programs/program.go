package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// Process is a running program. Its methods may be called from any goroutine.
type Process struct {
	// Out and Log are standard output and error, unless the command has files
	// or pipes in their place.
	Out, Log *Output
	// Grace is the time between the request to end and SIGKILL: Patience,
	// unless the caller sets it.
	Grace time.Duration

	name    string
	command *exec.Cmd
	file    string        // of the log, if it is a file
	exited  chan struct{} // closed when it is gone and its output complete
}

// Start starts a command. Standard output and error are collected where the
// command has no writers of its own, in one Output if Stdout and Stderr are the
// same one.
//
// The kernel kills the process when this one dies: a test binary that exceeds
// its timeout runs no cleanup. Attributes that the command has are left as they
// are. Pdeathsig is for the death of the thread, so the caller must not be on
// one that ends early.
func Start(name string, command *exec.Cmd) (*Process, error) {
	p := &Process{Out: &Output{}, Log: &Output{}, Grace: Timeout, name: name, command: command, exited: make(chan struct{})}
	switch writer := command.Stderr.(type) {
	case nil:
		command.Stderr = p.Log
	case *Output:
		p.Log = writer
	}
	switch writer := command.Stdout.(type) {
	case nil:
		command.Stdout = p.Out
	case *Output:
		p.Out = writer
	}
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	// A grandchild that keeps the output open must not block Wait forever.
	command.WaitDelay = 5 * time.Second
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = command.Wait() // how it ended is in ProcessState
	}()
	return p, nil
}

// StartLogging is Start with standard error, and standard output unless the
// command has one, in a file. It is for programs whose log outlives the run, or
// whose output must not take CPU time of this process. The process has its own
// process group: Ctrl-C on the terminal does not reach it, and what it leaves
// behind in the group is killed with it.
func StartLogging(name, path string, command *exec.Cmd) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child has its own descriptor
	command.Stderr = file
	if command.Stdout == nil {
		command.Stdout = file
	}
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	p, err := Start(name, command)
	if err == nil {
		p.file = path
	}
	return p, err
}

// Run starts a command and kills it at the end of the test. It does not wait
// for readiness; use Address, AwaitLog or Await for that.
func Run(t testing.TB, name string, command *exec.Cmd) *Process {
	t.Helper()
	p, err := Start(name, command)
	if err != nil {
		t.Fatalf("%v: make deps installs what is missing", err)
	}
	t.Cleanup(func() {
		p.Kill() // after which the log is complete
		if t.Failed() {
			ShowLog(t, p.name, p.Out.String()+p.logged())
		}
	})
	return p
}

// Slipway is Run for the built slipway, with nothing but Environment.
func Slipway(t testing.TB, name, binary string, environment []string, words ...string) *Process {
	t.Helper()
	command := exec.Command(binary, words...)
	command.Env = Environment(t, environment...)
	return Run(t, name, command)
}

// Environment returns PATH, temporary folders of the test as HOME and TMPDIR,
// and more: settings of the developer's shell do not change a test.
func Environment(t testing.TB, more ...string) []string {
	t.Helper()
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, more...)
}

// UserEnvironment returns the environment of this process without the variables
// that tests have and users do not: the program takes them for options.
func UserEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SLIPWAY_") })
}

// Name returns the name of the process in the output of the test.
func (p *Process) Name() string { return p.name }

// PID returns the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// Exited returns a channel that is closed when the process is gone and its
// output is complete.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive returns nil while the process runs, and an [ExitedError] after that.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return &ExitedError{Name: p.name, Output: p.Output(), State: p.command.ProcessState}
	default:
		return nil
	}
}

// State returns how the process ended; it waits for that.
func (p *Process) State() *os.ProcessState {
	<-p.exited
	return p.command.ProcessState
}

// Wait waits until the process ends by itself, and returns how. The test fails
// after Patience.
func (p *Process) Wait(t testing.TB) *os.ProcessState {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(Timeout):
		t.Fatalf("%s does not end: %s%s", p.name, Tail(p.Out.String()), p.Output())
	}
	return p.command.ProcessState
}

// Output returns the end of the log, for messages.
func (p *Process) Output() string {
	text := strings.TrimSpace(p.logged())
	if text == "" {
		return "nothing"
	}
	return Tail(text)
}

// logged returns all of the log.
func (p *Process) logged() string {
	if p.file == "" {
		return p.Log.String()
	}
	content, err := os.ReadFile(p.file)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Logged reports whether a line of the log contains all of these words.
func (p *Process) Logged(words ...string) bool {
	for line := range strings.Lines(p.Log.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return true
		}
	}
	return false
}

// AwaitLog waits until the log contains a text.
func (p *Process) AwaitLog(t testing.TB, text string) {
	t.Helper()
	p.AwaitOutput(t, p.Log, text)
}

// AwaitOutput waits until an output of the process contains a text.
func (p *Process) AwaitOutput(t testing.TB, output *Output, text string) {
	t.Helper()
	must.Do(t, p.Expect(output, text))
}

// Expect is AwaitOutput with an error.
func (p *Process) Expect(output *Output, text string) error {
	if err := output.await(p.exited, func(now string) bool { return strings.Contains(now, text) }); err != nil {
		return fmt.Errorf("%s does not write %q: %w: %s%s", p.name, text, err, Tail(p.Out.String()), p.Output())
	}
	return nil
}

// Listener is the log line by which slipway announces a server or an entry
// point. Listeners of tests have port 0, so the log is the only source.
type Listener struct{ Server, EntryPoint, Address, URL string }

// Listens waits until the log announces the listener of a server or an entry
// point. The test fails after Patience.
func (p *Process) Listens(t testing.TB, name string) Listener {
	t.Helper()
	var found Listener
	err := p.Log.await(p.exited, func(text string) bool {
		for line := range strings.Lines(text) {
			found = Listener{}
			if json.Unmarshal([]byte(line), &found) == nil && found.Address != "" && (found.Server == name || found.EntryPoint == name) {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("%s of %s does not listen: %v: %s", name, p.name, err, p.Output())
	}
	return found
}

// Address returns the address of a listener; see Listens.
func (p *Process) Address(t testing.TB, name string) string {
	t.Helper()
	return p.Listens(t, name).Address
}

// Password waits until a platform has printed the password of its first admin,
// and returns it.
func (p *Process) Password(t testing.TB) (password string) {
	t.Helper()
	err := p.Out.await(p.exited, func(text string) (printed bool) {
		_, rest, _ := strings.Cut(text, "password: ")
		password, _, printed = strings.Cut(rest, "\n")
		return printed
	})
	if err != nil {
		t.Fatalf("no password is printed: %v: %q", err, Tail(p.Out.String()))
	}
	return password
}

// ExitedError is the error of a process that exited while it was waited for.
type ExitedError struct {
	Name, Output string
	State        *os.ProcessState
}

// Error includes how it ended and the end of the log.
func (e *ExitedError) Error() string {
	return fmt.Sprintf("%s ended: %s; its log ends with: %s", e.Name, e.State, e.Output)
}

// Await polls a condition until it returns nil, the process exits, which is an
// [ExitedError], or ctx is done.
func (p *Process) Await(ctx context.Context, interval time.Duration, condition func(context.Context) error) error {
	err := poll(ctx, interval, p.exited, condition)
	if err == nil {
		return nil
	}
	if gone := p.Alive(); gone != nil {
		return gone
	}
	return fmt.Errorf("%s: %w; its log ends with: %s", p.name, err, p.Output())
}

// AwaitListener waits until the process accepts connections at an address.
func (p *Process) AwaitListener(t testing.TB, network, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	err := p.Await(ctx, lookAgain, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	must.Do(t, err)
}

// Signal sends a signal. It fails only if the process has exited.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Kill sends SIGKILL and waits for the exit, like a node that loses power. It
// may be called more than once.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have exited
	p.sweep()
	<-p.exited
}

// sweep kills the process group, if the process has one of its own: it may
// contain workers that outlived the process.
func (p *Process) sweep() {
	if p.command.SysProcAttr.Setpgid {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it fails if none is left
	}
}

// End requests the end with ask, or with SIGTERM if ask is nil, and waits. A
// process that is still there after Grace is killed, which is an error.
func (p *Process) End(check func() error) error {
	if check == nil {
		check = func() error { return p.Signal(syscall.SIGTERM) }
	}
	if err := check(); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	late := time.NewTimer(p.Grace)
	defer late.Stop()
	select {
	case <-p.exited:
		p.sweep()
		return nil
	case <-late.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s and was killed: %s", p.name, p.Grace, p.Output())
	}
}

// Stop ends the process with SIGTERM, as the kubelet does. A process that has
// to be killed, or that ends with an error, fails the test.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	must.Do(t, p.End(nil))
	if !p.State().Success() {
		t.Errorf("%s ended with %v:\n%s", p.name, p.State(), p.Output())
	}
}
