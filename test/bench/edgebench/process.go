package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopTime is the grace period between SIGTERM and SIGKILL.
const stopTime = 10 * time.Second

// child is a program that runs until stop. Its fields do not change after
// startChild returns.
type child struct {
	name    string
	command *exec.Cmd
	log     string        // file with what it wrote
	exited  chan struct{} // closed when it has ended
}

// startChild starts a program in its own process group, with its output in a
// log file below dir. It must be called from the main thread, because of
// Pdeathsig. The environment is PATH, directories below dir and command.Env: no
// variable of the caller may change a measurement.
func startChild(name, dir string, command *exec.Cmd) (*child, error) {
	c := &child{name: name, command: command, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	command.Dir = dir
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
		"XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CACHE_HOME=" + dir,
	}, command.Env...)
	// Ctrl-C on the terminal goes to this program, which stops its children in
	// order. If this program is killed, the kernel sends them SIGTERM; a
	// supervisor such as the nginx master then ends its workers.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(c.exited)
		_ = command.Wait() // how it ended is in ProcessState
	}()
	return c, nil
}

// stop ends the child and its process group, and returns when the child has
// been waited for.
func (c *child) stop() {
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
	}
	// The group may contain workers that outlived the child.
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// signal signals the whole process group. The error is ignored: it means that
// the group has no processes left.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.command.Process.Pid, s) }

// exitedError is the error of a child that exited before it was stopped.
type exitedError struct {
	name string
	code int
	said string
}

// Error includes the exit code and the end of the log.
func (e *exitedError) Error() string {
	return fmt.Sprintf("%s ended with exit code %d: %s", e.name, e.code, e.said)
}

// await calls ready every 50 milliseconds until it succeeds, the child exits,
// or half of turnSlack has passed, which leaves the other half for stopping. A
// timeout returns the last error of ready.
func (c *child) await(ctx context.Context, ready func(context.Context) error) error {
	const period = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, turnSlack/2)
	defer cancel()
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return &exitedError{name: c.name, code: c.command.ProcessState.ExitCode(), said: c.said()}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("%s did not come up: %w; it said: %s", c.name, err, c.said())
		case <-tick.C:
		}
	}
}

// said returns the last 600 bytes of the child's log, for error messages.
func (c *child) said() string {
	const most = 600
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	said := strings.TrimSpace(string(text))
	if len(said) > most {
		said = "…" + said[len(said)-most:]
	}
	if said == "" {
		return "nothing"
	}
	return said
}
