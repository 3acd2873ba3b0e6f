// Package prompt reads from the user: confirmations, lines, and secrets without
// echo. Prompts go to standard error, because results are on standard output.
//
// Without a terminal there are no prompts: Confirm needs the --yes flag, and
// secrets come from files or standard input.
package prompt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/secret"
)

// Prompter prompts on behalf of one command. It is not safe for concurrent use.
type Prompter struct {
	ctx      context.Context // of the command: Ctrl-C ends a question
	in       io.Reader
	lines    *bufio.Reader
	Out      io.Writer
	terminal int // file descriptor, or -1
}

// New returns a prompter on the streams of a command. The end of the command's
// context ends a prompt.
func New(command *cobra.Command) *Prompter {
	p := &Prompter{ctx: command.Context(), in: command.InOrStdin(), Out: command.ErrOrStderr(), terminal: -1}
	// The buffer is as small as bufio allows: term.ReadPassword reads the
	// descriptor directly and would miss input that is buffered here.
	p.lines = bufio.NewReaderSize(io.LimitReader(p.in, maxSecretBytes), 1)
	if file, ok := p.in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.terminal = int(file.Fd())
	}
	return p
}

// Interactive reports whether standard input is a terminal.
func (p *Prompter) Interactive() bool { return p.terminal >= 0 }

// Line prompts for a line with echo. Input that ends without a line break
// counts, but empty input does not.
func (p *Prompter) Line(question string) (string, error) {
	_, _ = fmt.Fprint(p.Out, question)
	text, err := p.await(func() (string, error) { return p.lines.ReadString('\n') })
	if p.ctx.Err() != nil {
		return "", errInterrupted
	}
	if err != nil && (!errors.Is(err, io.EOF) || text == "") {
		return "", errors.New("standard input ended before a reply")
	}
	return strings.TrimRight(text, "\r\n"), nil
}

// Hidden prompts for a secret without echo. If standard input is not a
// terminal, it reads one line of it without a prompt.
func (p *Prompter) Hidden(question string) (secret.Text, error) {
	if !p.Interactive() {
		text, err := p.lines.ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || text == "") {
			return secret.Text{}, errors.New("standard input ended before the password")
		}
		return secret.New(strings.TrimRight(text, "\r\n")), nil
	}
	_, _ = fmt.Fprint(p.Out, question)
	// The state is saved before ReadPassword turns the echo off.
	before, err := term.GetState(p.terminal)
	if err != nil {
		return secret.Text{}, fmt.Errorf("look at the terminal: %w", err)
	}
	text, err := p.await(func() (string, error) {
		text, err := term.ReadPassword(p.terminal)
		return string(text), err
	})
	_, _ = fmt.Fprintln(p.Out)
	if p.ctx.Err() != nil {
		// The abandoned read would restore the echo only after the next line,
		// so the terminal is restored here.
		return secret.Text{}, errors.Join(errInterrupted, term.Restore(p.terminal, before))
	}
	if err != nil {
		return secret.Text{}, fmt.Errorf("read what you typed: %w", err)
	}
	return secret.New(text), nil
}

// errInterrupted ends a prompt whose context is canceled.
var errInterrupted = errors.New("interrupted: nothing was done")

// await runs read until it returns or the context of the command ends. An
// interrupted read stays behind in its goroutine, because a read from a
// terminal cannot be canceled; the buffer of the channel lets it end. The
// process exits soon after.
func (p *Prompter) await(read func() (string, error)) (string, error) {
	type response struct {
		text string
		err  error
	}
	responses := make(chan response, 1)
	go func() {
		text, err := read()
		responses <- response{text, err}
	}()
	select {
	case given := <-responses:
		return given.text, given.err
	case <-p.ctx.Done():
		return "", p.ctx.Err()
	}
}

// ChooseTwice prompts for a new password until two entries match. It gives up
// after three attempts. Without a terminal one entry is enough: there are no
// typing errors to catch.
func (p *Prompter) ChooseTwice(question string) (secret.Text, error) {
	const tries = 3
	for range tries {
		first, err := p.Hidden(question)
		if err != nil {
			return secret.Text{}, err
		}
		if !p.Interactive() {
			return first, nil
		}
		second, err := p.Hidden("Once more: ")
		if err != nil {
			return secret.Text{}, err
		}
		if first.Reveal() == second.Reveal() {
			return first, nil
		}
		_, _ = fmt.Fprintln(p.Out, "They differ.")
	}
	return secret.Text{}, errors.New("the two passwords differ: nothing was changed")
}

// Confirm prompts before a change and returns an error unless the user agrees.
// Without a terminal it needs the flag: a script must never block on a prompt,
// nor change something without an explicit --yes.
func (p *Prompter) Confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !p.Interactive() {
		return exit.UsageError{Err: errors.New("there is no terminal to confirm on: add --yes if it is intended")}
	}
	response, err := p.Line(question + " [y/N] ")
	if err != nil {
		return err
	}
	if response := strings.ToLower(strings.TrimSpace(response)); response != "y" && response != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
