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

// stopTime is how long a child may take to end before it is killed.
const stopTime = 10 * time.Second

// child is a program that runs until it is stopped.
type child struct {
	name    string
	command *exec.Cmd
	log     string        // file with what it wrote
	exited  chan struct{} // closed when it has ended
}

// startChild starts a program in a process group of its own. Its environment
// is empty but for what is given: no option of the person at the keyboard may
// change what is measured. It must be called from the main thread.
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
	// Ctrl-C on the terminal is for this program, which then stops its children
	// in order. If it is killed, the kernel stops them.
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

// stop ends the child and all that it started.
func (c *child) stop() {
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
	}
	// Also what outlived its parent.
	c.signal(syscall.SIGKILL)
	<-c.exited
}

func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.command.Process.Pid, s) }

// exitedError is a child that ended on its own.
type exitedError struct {
	name string
	code int
	said string
}

func (e *exitedError) Error() string {
	return fmt.Sprintf("%s ended with exit code %d: %s", e.name, e.code, e.said)
}

// await asks until the child is ready, has ended or the time is over.
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

// said is the end of what the child wrote.
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
