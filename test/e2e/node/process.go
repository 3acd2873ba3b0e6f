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
	// commandTimeout bounds a command that does one thing.
	commandTimeout = 2 * time.Minute
	// stopTimeout is how long a part may take to end before it is killed.
	stopTimeout = 20 * time.Second
	// lookAgain is the pause between two looks at something that says nothing by
	// itself.
	lookAgain = 100 * time.Millisecond
	// tail is how much of a log an error has.
	tail = 2000
)

// process is a part that runs.
type process struct {
	name, log string
	command   *exec.Cmd
	ended     chan struct{}
	err       error // set before ended is closed
}

// launch starts a part whose output goes to a file. It ends with this process.
func (n *Node) launch(name string, words ...string) (*process, error) {
	p := &process{name: name, log: n.cfg.path("log", name+".log"), command: exec.Command(words[0], words[1:]...), ended: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
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

// stop asks the part to end, and kills it when it does not.
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

// said is the end of the part's log.
func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tail):])
}

// until waits for a condition, and gives up when the part ends or the time is
// over.
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

// do runs a command that does one thing, and gives what it prints.
func do(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, output[max(0, len(output)-tail):])
	}
	return string(output), nil
}

// all runs commands until one fails. Their words have no spaces.
func all(ctx context.Context, commands ...string) error {
	for _, one := range commands {
		if _, err := do(ctx, strings.Fields(one)...); err != nil {
			return err
		}
	}
	return nil
}

// write makes a file and the folders above it.
func write(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}
