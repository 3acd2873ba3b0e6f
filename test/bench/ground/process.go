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

// stopTime is the grace period between the request to stop and SIGKILL.
const stopTime = 20 * time.Second

// Child is a program that runs until Stop. The fields are set before StartChild
// returns and do not change.
type Child struct {
	name    string
	command *exec.Cmd
	log     string        // file with what it wrote on standard error
	exited  chan struct{} // closed when it has ended
}

// StartChild starts a program with its standard error, and by default its
// standard output, in the log file. It must be called from the main thread,
// because of Pdeathsig below. The child's environment is PATH, a temporary HOME
// and command.Env: no variable of the caller may change a measurement.
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
	// If this program is killed, the kernel kills its children. The separate
	// process group keeps Ctrl-C on the terminal from them.
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

// Stop requests the child to end, with ask or with SIGTERM if ask is nil, and
// waits for it. After stopTime it kills the child and returns an error.
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

// Await calls ready once per period until it succeeds, the child has exited, or
// ctx is done. The error includes the end of the child's log and, after a
// timeout, the last error of ready.
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

// Said returns the last 1500 bytes of the child's log, for error messages.
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

// PID returns the process ID of the child.
func (c *Child) PID() int { return c.command.Process.Pid }
