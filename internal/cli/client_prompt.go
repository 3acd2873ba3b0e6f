package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"slipway.dev/slipway/internal/secret"
)

// mostSecretBytes bounds a password, a token or a key from a file: an SSH key is
// the largest.
const mostSecretBytes = 64 << 10

// prompter asks a person. Questions go to standard error: results are on standard
// output.
type prompter struct {
	ctx      context.Context // of the command: Ctrl-C ends a question
	in       io.Reader
	lines    *bufio.Reader
	out      io.Writer
	terminal int // file descriptor, or -1
}

func newPrompter(command *cobra.Command) *prompter {
	p := &prompter{ctx: command.Context(), in: command.InOrStdin(), out: command.ErrOrStderr(), terminal: -1}
	p.lines = bufio.NewReaderSize(io.LimitReader(p.in, mostSecretBytes), 1)
	if file, ok := p.in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.terminal = int(file.Fd())
	}
	return p
}

// interactive reports whether there is somebody to ask.
func (p *prompter) interactive() bool { return p.terminal >= 0 }

// line asks for a line that may be seen.
func (p *prompter) line(question string) (string, error) {
	_, _ = fmt.Fprint(p.out, question)
	text, err := p.await(func() (string, error) { return p.lines.ReadString('\n') })
	if p.ctx.Err() != nil {
		return "", errInterrupted
	}
	if err != nil && (!errors.Is(err, io.EOF) || text == "") {
		return "", errors.New("standard input ended before the answer")
	}
	return strings.TrimRight(text, "\r\n"), nil
}

// hidden asks for a line that nobody may see: without echo on a terminal, and
// without a question elsewhere.
func (p *prompter) hidden(question string) (secret.Text, error) {
	if !p.interactive() {
		text, err := p.lines.ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || text == "") {
			return secret.Text{}, errors.New("standard input ended before the password")
		}
		return secret.New(strings.TrimRight(text, "\r\n")), nil
	}
	_, _ = fmt.Fprint(p.out, question)
	before, err := term.GetState(p.terminal)
	if err != nil {
		return secret.Text{}, fmt.Errorf("look at the terminal: %w", err)
	}
	text, err := p.await(func() (string, error) {
		text, err := term.ReadPassword(p.terminal)
		return string(text), err
	})
	_, _ = fmt.Fprintln(p.out)
	if p.ctx.Err() != nil {
		// What reads is left behind: it would turn the echo on too late.
		return secret.Text{}, errors.Join(errInterrupted, term.Restore(p.terminal, before))
	}
	if err != nil {
		return secret.Text{}, fmt.Errorf("read what you typed: %w", err)
	}
	return secret.New(text), nil
}

// errInterrupted ends a question that was not answered.
var errInterrupted = errors.New("interrupted: nothing was done")

// await waits for an answer, or for the end of the command.
func (p *prompter) await(read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := read()
		answers <- answer{text, err}
	}()
	select {
	case given := <-answers:
		return given.text, given.err
	case <-p.ctx.Done():
		return "", p.ctx.Err()
	}
}

// chooseTwice asks for a new password until both answers are the same.
func (p *prompter) chooseTwice(question string) (secret.Text, error) {
	const tries = 3
	for range tries {
		first, err := p.hidden(question)
		if err != nil {
			return secret.Text{}, err
		}
		if !p.interactive() {
			return first, nil
		}
		second, err := p.hidden("Once more: ")
		if err != nil {
			return secret.Text{}, err
		}
		if first.Reveal() == second.Reveal() {
			return first, nil
		}
		_, _ = fmt.Fprintln(p.out, "They differ.")
	}
	return secret.Text{}, errors.New("the two passwords differ: nothing was changed")
}

// confirm asks before something is done. Where nobody can be asked, it needs the
// flag.
func (p *prompter) confirm(question string, yes bool) error {
	if yes {
		return nil
	}
	if !p.interactive() {
		return usageError{errors.New("nobody can be asked here: say --yes if it is meant")}
	}
	answer, err := p.line(question + " [y/N] ")
	if err != nil {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

// secretFlags are the ways to give a token: a file, standard input, or the command
// line, which others can see.
type secretFlags struct {
	what, flag  string
	value, file string
}

// add adds the flags: --NAME-file, and --NAME.
func (s *secretFlags) add(command *cobra.Command, flag, what string) {
	s.flag, s.what = flag, what
	command.Flags().StringVar(&s.file, flag+"-file", "", "file with "+what+"; - is standard input")
	command.Flags().StringVar(&s.value, flag, "", what+"; other users of the machine can see it: prefer --"+flag+"-file")
}

// read gives the secret, and asks for it on a terminal.
func (s *secretFlags) read(command *cobra.Command) (secret.Text, error) {
	switch {
	case s.value != "" && s.file != "":
		return secret.Text{}, usageError{fmt.Errorf("--%s and --%s-file are both given: keep one of them", s.flag, s.flag)}
	case s.value != "":
		note(command, "Others on this machine can see --%s in the list of processes: prefer --%s-file, or standard input with --%s-file -.", s.flag, s.flag, s.flag)
		return secret.New(s.value), nil
	case s.file != "":
		return readSecretFile(command, s.file, s.what)
	}
	asking := newPrompter(command)
	if !asking.interactive() {
		return secret.Text{}, usageError{fmt.Errorf("%s is missing: name its file with --%s-file, or - for standard input", s.what, s.flag)}
	}
	given, err := asking.hidden(strings.ToUpper(s.what[:1]) + s.what[1:] + ": ")
	if err == nil && given.IsZero() {
		err = usageError{fmt.Errorf("%s is missing", s.what)}
	}
	return given, err
}

// readSecretFile reads a file with one secret; - is standard input.
func readSecretFile(command *cobra.Command, path, what string) (secret.Text, error) {
	from := command.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return secret.Text{}, usageError{fmt.Errorf("read %s: %w", what, err)}
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
			note(command, "Other users of this machine may read %s: run chmod 600 %s.", path, path)
		}
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, mostSecretBytes+1))
	if err != nil {
		return secret.Text{}, fmt.Errorf("read %s: %w", what, err)
	}
	defer clear(text)
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > mostSecretBytes {
		return secret.Text{}, usageError{fmt.Errorf("%s is empty or longer than %d bytes", what, mostSecretBytes)}
	}
	return secret.New(string(text)), nil
}
