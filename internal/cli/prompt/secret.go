package prompt

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/secret"
)

// maxSecretBytes bounds a password, a token or a key; SSH keys are the largest.
const maxSecretBytes = 64 << 10

// SecretFlags are the ways to pass a token: a file, standard input, or the
// command line, where other users of the machine can see it.
type SecretFlags struct {
	// what describes the secret in messages; flag is the name without dashes.
	what, flag  string
	value, file string
}

// ReadSecret reads a file with one secret; - is standard input. White space
// around it is trimmed. A file that other users can read causes a warning and
// not an error.
func ReadSecret(command *cobra.Command, path, what string) (secret.Text, error) {
	from := command.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return secret.Text{}, exit.UsageError{Err: fmt.Errorf("read %s: %w", what, err)}
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
			printer.Note(command, "Other users of this machine may read %s: run chmod 600 %s.", path, path)
		}
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSecretBytes+1))
	if err != nil {
		return secret.Text{}, fmt.Errorf("read %s: %w", what, err)
	}
	// The argument is evaluated now, so the whole buffer is cleared and not
	// only the trimmed part.
	defer clear(text)
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > maxSecretBytes {
		return secret.Text{}, exit.UsageError{Err: fmt.Errorf("%s is empty or longer than %d bytes", what, maxSecretBytes)}
	}
	return secret.New(string(text)), nil
}

// Add adds the flags --FLAG-file and --FLAG. It must be called before Read.
func (s *SecretFlags) Add(command *cobra.Command, flag, what string) {
	s.flag, s.what = flag, what
	command.Flags().StringVar(&s.file, flag+"-file", "", "file with "+what+"; - is standard input")
	command.Flags().StringVar(&s.value, flag, "", what+"; other users of the machine can see it: prefer --"+flag+"-file")
}

// Given reports whether a flag has the secret, so that Read does not prompt.
func (s *SecretFlags) Given() bool { return s.value != "" || s.file != "" }

// Read returns the secret from the flags, or prompts for it on a terminal.
// Without both it is a usage error.
func (s *SecretFlags) Read(command *cobra.Command) (secret.Text, error) {
	switch {
	case s.value != "" && s.file != "":
		return secret.Text{}, exit.UsageError{Err: fmt.Errorf("--%s and --%s-file are both given: keep one of them", s.flag, s.flag)}
	case s.value != "":
		printer.Note(command, "Others on this machine can see --%s in the list of processes: prefer --%s-file, or standard input with --%s-file -.", s.flag, s.flag, s.flag)
		return secret.New(s.value), nil
	case s.file != "":
		return ReadSecret(command, s.file, s.what)
	}
	prompter := New(command)
	if !prompter.Interactive() {
		return secret.Text{}, exit.UsageError{Err: fmt.Errorf("%s is missing: name its file with --%s-file, or - for standard input", s.what, s.flag)}
	}
	given, err := prompter.Hidden(strings.ToUpper(s.what[:1]) + s.what[1:] + ": ")
	if err == nil && given.IsZero() {
		err = exit.UsageError{Err: fmt.Errorf("%s is missing", s.what)}
	}
	return given, err
}
