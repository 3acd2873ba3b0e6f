package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// outputGrace is how long the output of a process that has ended is still read. Built-in images have no children that
// could keep it open; this bounds the wait if one ever has.
const outputGrace = 2 * time.Second

// command is what a process is started from.
type command struct {
	executable string
	args       []string
	env        []string
	log        *logFile
}

// ending is how a process ended.
type ending struct {
	code     int32
	signal   int32
	started  time.Time
	finished time.Time
}

// process is a running built-in image.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	// lifeline is the write end of the process's stdin. A built-in image exits when stdin ends, so it goes with the
	// node however the node goes.
	lifeline *os.File
	// exited is closed once the process has ended and its output is in the log; end is valid from then on.
	exited chan struct{}
	end    ending
}

// start runs the command. The process is in a process group of its own, so that an interrupt typed at the terminal
// reaches the node only, which then stops its Pods in order.
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
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   outputGrace,
	}
	if err := p.cmd.Start(); err != nil {
		lifeline.Close()
		return nil, fmt.Errorf("start %s: %w", c.executable, err)
	}
	p.started = time.Now()
	go p.wait(c.log)
	return p, nil
}

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
		// Waiting itself failed; whatever happened was not a success.
		p.end.code = 255
	}
}

// terminate asks the process to end.
func (p *process) terminate() { p.signal(syscall.SIGTERM) }

// kill ends the process.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

func (p *process) signal(s syscall.Signal) {
	// The only error is that the process has ended, which exited tells.
	_ = p.cmd.Process.Signal(s)
}
