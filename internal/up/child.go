package up

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// stopGrace is the time that a part has to stop. The control plane gives
	// each of its four components ten seconds.
	stopGrace = 45 * time.Second
	// killGrace is the time that the kernel has to end a killed process.
	killGrace = 5 * time.Second
	// pipeGrace bounds the wait for output of descendants that outlive a part.
	pipeGrace = 2 * time.Second
	// maxFirstLine bounds the line with which a part reports that it is ready.
	maxFirstLine = 4 << 10
	// keptOutput is how much of the end of standard error is kept for messages.
	keptOutput = 8 << 10
)

// program describes a process to start.
type program struct {
	path string
	args []string
	// log is the file that the program writes, for the message when it dies.
	log string
	// logs is set for a program that logs to standard error, which goes into
	// the log file then.
	logs bool
	// env replaces our environment unless it is nil.
	env []string
	// tied is set for a program that does not watch its standard input: the
	// kernel ends it when we die.
	tied bool
	// hold is inherited, so that its lock lives as long as the program.
	hold *os.File
}

// child is a started process. By contract it ends when our end of its standard
// input is closed, also by our own death, unless it is tied. It has a process
// group of its own, so that Ctrl-C in the terminal reaches only us and the
// parts stop in order.
type child struct {
	program
	command *exec.Cmd
	// logBefore is the log file before this run, nil if there was none.
	logBefore os.FileInfo
	output    *firstLine
	errors    *outputTail
	// exited is closed when the process has ended and outcome is set.
	exited  chan struct{}
	outcome error
}

// startChild starts a process and returns when it runs.
func startChild(p program) (*child, error) {
	c := &child{
		program: p,
		command: exec.Command(p.path, p.args...),
		output:  &firstLine{line: make(chan string, 1)},
		errors:  &outputTail{},
		exited:  make(chan struct{}),
	}
	// Its size before this run separates the lines of this run from older ones.
	if info, err := os.Stat(p.log); err == nil {
		c.logBefore = info
	}
	c.command.Env = p.env
	c.command.Stdout = c.output
	c.command.Stderr = c.errors
	if p.logs {
		log, err := freshLog(p.log)
		if err != nil {
			return nil, err
		}
		// The child has a descriptor of its own after the start.
		defer log.Close()
		c.command.Stderr = log
	}
	c.command.WaitDelay = pipeGrace
	// A signal of the terminal goes to our group only, and kill ends the child
	// with its descendants.
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.hold != nil {
		c.command.ExtraFiles = []*os.File{p.hold}
	}
	// Nothing is ever written: closing it is the signal.
	if _, err := c.command.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.path, err)
	}
	return c, nil
}

// run starts the process, reports that on started, and waits for its end. Both
// happen on one locked thread, because Pdeathsig is bound to the thread that
// starts a process.
func (c *child) run(started chan<- error) {
	if c.tied {
		// For the kernel the parent is the thread that starts a process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tie(c.command.SysProcAttr)
	}
	err := c.command.Start()
	started <- err
	if err == nil {
		// outcome is set before exited is closed, so that readers need no lock
		// once exited is closed.
		defer close(c.exited)
		c.outcome = c.command.Wait()
	}
}

// freshLog opens an empty log file. The one of the run before is kept beside
// it.
func freshLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// pid returns the process ID.
func (c *child) pid() int { return c.command.Process.Pid }

// stop sends SIGTERM and waits. After grace, or when now is closed, the process
// is killed. Only a process that had to be killed is an error.
func (c *child) stop(grace time.Duration, now <-chan struct{}) error {
	// An error means that it has ended already.
	_ = c.command.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	reason := fmt.Sprintf("it did not stop within %s", grace)
	select {
	case <-c.exited:
		return nil
	case <-now:
		reason = "as requested"
	case <-timer.C:
	}
	// The grace period is over, or the user does not want to wait.
	c.kill()
	last := time.NewTimer(killGrace)
	defer last.Stop()
	select {
	case <-c.exited:
		return fmt.Errorf("killed, %s", reason)
	case <-last.C:
		return fmt.Errorf("pid %d does not end, although it was killed", c.pid())
	}
}

// kill ends the process and its process group.
func (c *child) kill() {
	// After the end of a process its ID may be used again.
	select {
	case <-c.exited:
	default:
		_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
	}
}

// status describes how a process ended.
func (c *child) status() string {
	var exit *exec.ExitError
	// ErrWaitDelay means that descendants held the pipes open after a clean
	// exit.
	if c.outcome == nil || errors.Is(c.outcome, exec.ErrWaitDelay) {
		return "exit status 0"
	}
	if errors.As(c.outcome, &exit) {
		return exit.ProcessState.String()
	}
	return c.outcome.Error()
}

// firstLine is a writer that delivers the first line and drops the rest.
type firstLine struct {
	line chan string
	seen []byte
	done bool
}

// Write collects bytes until the first newline or maxFirstLine. It accepts
// everything, so that the child never blocks on its output.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.done {
		return len(p), nil
	}
	f.seen = append(f.seen, p...)
	if end := bytes.IndexByte(f.seen, '\n'); end >= 0 || len(f.seen) > maxFirstLine {
		f.done = true
		if end < 0 {
			end = maxFirstLine
		}
		// The channel has room for the only line.
		f.line <- string(f.seen[:end])
		f.seen = nil
	}
	return len(p), nil
}

// outputTail is a writer that keeps the end of what is written.
type outputTail struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps the last keptOutput bytes.
func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - keptOutput; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String returns what is kept so far.
func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

var _ io.Writer = (*outputTail)(nil)
