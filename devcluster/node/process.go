package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// outputGrace bounds the time that the output of a process is read after the
// process has ended. Built-in images have no children that could keep it open;
// this bounds the wait if one ever has.
const outputGrace = 2 * time.Second

// command holds the parameters of a process. env is complete: nothing is
// inherited from the node. log receives both outputs and is closed with the
// process.
type command struct {
	executable string
	args       []string
	env        []string
	log        *logFile
	// root is the root directory of a program, which executable is a path in;
	// empty for a built-in image.
	root string
	// namespace is the network namespace of the process; nil is the node's.
	namespace *podNamespace
}

// ending describes how and when a process ended. A process that a signal killed
// has the code 128 plus the signal, as a shell reports it.
type ending struct {
	code     int32
	signal   int32
	started  time.Time
	finished time.Time
}

// process is a running image.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	// lifeline is the write end of the process's stdin. A built-in image exits
	// when stdin ends, and the kernel closes this end with the node: the
	// process ends even when the node is killed.
	lifeline *os.File
	// exited is closed once the process has ended and its output is in the log;
	// end is valid from then on.
	exited chan struct{}
	end    ending
}

// start runs the command. The process is in a process group of its own, so that
// an interrupt typed at the terminal reaches only the node, which then stops
// its Pods in order. On success the process owns the log; on failure the caller
// still does.
func (c command) start() (*process, error) {
	stdin, lifeline, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the process's stdin: %w", err)
	}
	defer stdin.Close()
	p := &process{lifeline: lifeline, exited: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path:        c.executable,
		Args:        append([]string{c.executable}, c.args...),
		Env:         c.env,
		Dir:         "/",
		Stdin:       stdin,
		Stdout:      c.log.stream("stdout"),
		Stderr:      c.log.stream("stderr"),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Chroot: c.root},
		WaitDelay:   outputGrace,
	}
	if c.root != "" {
		// A program does not watch its stdin, so the kernel kills it with the
		// node.
		p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	start := p.cmd.Start
	if c.namespace != nil {
		start = func() error { return c.namespace.do(p.cmd.Start) }
	}
	if err := start(); err != nil {
		lifeline.Close()
		if c.root != "" && errors.Is(err, syscall.ENOENT) {
			err = fmt.Errorf("%w: its root directory has no shared libraries, so it must be linked statically", err)
		}
		return nil, fmt.Errorf("start %s: %w", c.executable, err)
	}
	p.started = time.Now()
	// Reap the process and close exited, also when nothing waits for it.
	go p.wait(c.log)
	return p, nil
}

// wait reaps the process, then closes its log and records the ending. exited is
// closed last: it publishes end to other goroutines.
func (p *process) wait(log *logFile) {
	defer close(p.exited)
	err := p.cmd.Wait()
	p.lifeline.Close()
	log.end()
	p.end = ending{started: p.started, finished: time.Now(), code: int32(p.cmd.ProcessState.ExitCode())}
	status, known := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case known && status.Signaled():
		p.end.signal = int32(status.Signal())
		p.end.code = 128 + p.end.signal
	case p.end.code < 0 || err != nil && p.end.code == 0 && !errors.Is(err, exec.ErrWaitDelay):
		// Wait itself failed, so the exit code is not known; it must not count
		// as a success. ErrWaitDelay alone does not hide a code 0: it only
		// means that the output was still open.
		p.end.code = 255
	}
}

// terminate sends SIGTERM. A built-in image then drains and exits.
func (p *process) terminate() { p.signal(syscall.SIGTERM) }

// kill sends SIGKILL.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// signal sends a signal to the process. The only error is that it has already
// ended, and exited reports that.
func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
}
