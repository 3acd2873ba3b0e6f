package node

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

const (
	// commandTimeout bounds a short command such as ip, mount or ctr. Importing
	// an image is the slowest.
	commandTimeout = 2 * time.Minute
	// stopTimeout is how long a component may take to exit after SIGTERM before
	// it is killed, and how long control groups may stay busy.
	stopTimeout = 20 * time.Second
	// lookAgain is the poll interval for conditions that have no notification.
	lookAgain = 100 * time.Millisecond
	// tail is the number of bytes of a log that an error message includes.
	tail = 2000
)

// process is a running component.
type process struct {
	name, log string
	command   *exec.Cmd
	ended     chan struct{}
	err       error // set before ended is closed
}

// launch starts a component with its output in a log file, and registers it for
// Stop. The kernel kills it when this process dies, and its own process group
// keeps Ctrl-C from reaching it: Stop decides the order.
func (n *Node) launch(name string, words ...string) (*process, error) {
	p := &process{name: name, log: n.cfg.path("log", name+".log"), command: exec.Command(words[0], words[1:]...), ended: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// The child has its own descriptor.
	defer file.Close()
	p.command.Stdout, p.command.Stderr = file, file
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	n.parts = append(n.parts, p)
	return p, nil
}

// stop sends SIGTERM and waits, then kills. A component that had already exited
// is an error as well: it crashed during the run.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended by itself (%w): %s", p.name, p.err, p.said())
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timeout.C:
	}
	_ = p.command.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s did not end within %s and was killed", p.name, stopTimeout)
}

// said returns the end of the component's log.
func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tail):])
}

// until polls a condition until it returns nil. It fails early if the component
// exits, and on the deadline it returns the last error of the condition
// together with the end of the log.
func (p *process) until(ctx context.Context, condition func(context.Context) error) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended (%w): %s", p.name, p.err, p.said())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w; the log ends with %s", context.Cause(ctx), err, p.said())
		case <-tick.C:
		}
	}
}

// do runs a short command and returns its output. An error includes the end of
// it.
func do(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, output[max(0, len(output)-tail):])
	}
	return string(output), nil
}

// all runs commands in order and stops at the first error. Words are split at
// spaces, without quoting.
func all(ctx context.Context, commands ...string) error {
	for _, one := range commands {
		if _, err := do(ctx, strings.Fields(one)...); err != nil {
			return err
		}
	}
	return nil
}

// write creates a file and its parent folders.
func write(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}
