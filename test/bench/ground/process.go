package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// stopTime is how long a child may take to end before it is killed.
const stopTime = 20 * time.Second

// Child is a program that runs until it is stopped.
type Child struct {
	name    string
	command *exec.Cmd
	log     string        // file with what it wrote on standard error
	exited  chan struct{} // closed when it has ended
}

// StartChild starts a program. It must be called from the main thread. Its
// environment is what is given, and the path: no option of the person at the
// keyboard may change what is measured.
func StartChild(name, log string, command *exec.Cmd) (*Child, error) {
	c := &Child{name: name, command: command, log: log, exited: make(chan struct{})}
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command.Stderr = file
	if command.Stdout == nil {
		command.Stdout = file
	}
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, command.Env...)
	// If this program is killed, the kernel stops its children.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(c.exited)
		_ = command.Wait() // how it ended is in ProcessState
	}()
	return c, nil
}

// Stop asks the child to end, by a function or by a signal, and waits for it.
func (c *Child) Stop(ask func() error) error {
	if ask == nil {
		ask = func() error { return c.command.Process.Signal(syscall.SIGTERM) }
	}
	if err := ask(); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timer.C:
	}
	err := c.command.Process.Kill()
	<-c.exited
	return errors.Join(fmt.Errorf("%s did not end within %s and was killed", c.name, stopTime), err)
}

// Await asks until something is so, the child has ended, or the context is done.
func (c *Child) Await(ctx context.Context, period time.Duration, ready func(context.Context) error) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s ended: %s; it said: %s", c.name, c.command.ProcessState, c.Said())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w; it said: %s", c.name, context.Cause(ctx), err, c.Said())
		case <-tick.C:
		}
	}
}

// Said is the end of what the child wrote.
func (c *Child) Said() string {
	const most = 1500
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

// PID is the number of the process.
func (c *Child) PID() int { return c.command.Process.Pid }
