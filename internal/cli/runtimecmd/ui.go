package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/cli/report"
	"slipway.dev/slipway/internal/install/lifecycle"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// terminalUI is the lifecycle.UI of a command. Prompts, notes and findings go
// to standard error, plans and results to standard output.
type terminalUI struct {
	command *cobra.Command
	// leftovers is the form of an uninstall's leftovers; nil for the table.
	leftovers *printer.Output
}

// newUI returns the UI of a command.
func newUI(command *cobra.Command) *terminalUI { return &terminalUI{command: command} }

// Note implements lifecycle.UI with a line on standard error.
func (u *terminalUI) Note(format string, args ...any) { printer.Note(u.command, format, args...) }

// Confirm implements lifecycle.UI. Questions quote names from the cluster, so
// they are made printable.
func (u *terminalUI) Confirm(question string, yes bool) error {
	return prompt.New(u.command).Confirm(printer.Printable(question), yes)
}

// ReadSecret implements lifecycle.UI: a file, or - for standard input.
func (u *terminalUI) ReadSecret(path, what string) (secret.Text, error) {
	return prompt.ReadSecret(u.command, path, what)
}

// WriteSecret implements lifecycle.UI with a file of mode 0600.
func (u *terminalUI) WriteSecret(path string, text secret.Text) error {
	return files.WritePrivate(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text.Reveal())
		return err
	})
}

// Input implements lifecycle.UI with standard input, for values from a pipe.
func (u *terminalUI) Input() io.Reader { return u.command.InOrStdin() }

// Output implements lifecycle.UI. Text written to it is made printable, because
// the notes of a chart are foreign input.
func (u *terminalUI) Output() io.Writer { return printableWriter{u.command.OutOrStdout()} }

// printableWriter makes text safe for a terminal. Writes must contain whole
// characters: a split UTF-8 sequence would be replaced.
type printableWriter struct{ w io.Writer }

// Write writes text without control characters. It returns the original length,
// as io.Writer requires, although replaced characters may have another.
func (p printableWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.w, printer.PrintableLines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// ShowPlan implements lifecycle.UI.
func (u *terminalUI) ShowPlan(plan *release.Plan) error {
	return showPlan(u.command.OutOrStdout(), plan)
}

// ShowRemoval implements lifecycle.UI. The list goes to standard error, because
// standard output is for the leftovers. Cluster-scoped objects are marked.
func (u *terminalUI) ShowRemoval(objects []release.ID) error {
	rows, flush := printer.NewTable(u.command.ErrOrStderr())
	for _, id := range objects {
		scope := ""
		if id.Namespace == "" {
			scope = "(of the cluster)"
		}
		rows.Row("  delete", id.String(), scope)
	}
	return flush()
}

// ShowReport implements lifecycle.UI on standard error.
func (u *terminalUI) ShowReport(found validate.Report) error {
	return report.Values(u.command.ErrOrStderr(), "text", found)
}

// ShowCheck implements lifecycle.UI on standard error.
func (u *terminalUI) ShowCheck(result preflight.Result) {
	report.Check(u.command.ErrOrStderr(), result)
}

// ShowLeftovers implements lifecycle.UI. It is the result of an uninstall, in
// the form of --output.
func (u *terminalUI) ShowLeftovers(left []release.Leftover) error {
	w := u.command.OutOrStdout()
	if u.leftovers != nil && u.leftovers.Form != printer.FormTable {
		return u.leftovers.Encode(w, map[string]any{"leftovers": left})
	}
	return printLeftovers(w, left)
}

// printLeftovers prints the objects that an uninstall leaves, each with the
// reason and the command that removes it.
func printLeftovers(w io.Writer, left []release.Leftover) error {
	if len(left) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is left.")
		return err
	}
	_, _ = fmt.Fprintln(w, finding.Count(len(left), "thing is left:", "things are left:"))
	for _, one := range left {
		name := one.Name
		if one.Namespace != "" {
			name = one.Namespace + "/" + name
		}
		_, err := fmt.Fprintf(w, "  %s %s: %s\n    %s\n", printer.Printable(one.Kind), printer.Printable(name), printer.Printable(one.Why), printer.Printable(one.Command))
		if err != nil {
			return err
		}
	}
	return nil
}

// platform adapts a client to lifecycle.Platform, which keeps lifecycle free of
// the command line. Errors are those of apiclient.Call, with a remedy for the
// user.
type platform struct{ client *apiclient.Client }

// withOptionalPlatform calls run with the chosen platform, or with nil if none
// is chosen: Helm releases can be managed without one. It closes the client
// afterwards.
func withOptionalPlatform(choice *apiclient.Choice, run func(lifecycle.Platform) error) error {
	client, err := apiclient.OpenOptional(choice)
	if err != nil {
		return err
	}
	if client == nil {
		return finish(run(nil)) // a nil interface, and not one that holds a nil client
	}
	defer client.Close()
	return finish(run(platform{client}))
}

// BaseURL implements lifecycle.Platform.
func (p platform) BaseURL() string { return p.client.BaseURL() }

// CAFile implements lifecycle.Platform.
func (p platform) CAFile() string { return p.client.CAFile }

// Authorities implements lifecycle.Platform. It reads the CA file again, which
// the runtime gets as PEM.
func (p platform) Authorities() ([]byte, error) { return files.ReadAuthorities(p.client.CAFile) }

// Key implements lifecycle.Platform with the API key of the user.
func (p platform) Key() secret.Text { return p.client.Key }

// Me implements lifecycle.Platform.
func (p platform) Me(ctx context.Context) (*platformv1.MeResponse, error) {
	return apiclient.Call(ctx, p.client, p.client.Auth().Me, &platformv1.MeRequest{})
}

// MeWith implements lifecycle.Platform. It uses a client of its own, so that
// the key of the user is not sent with the request.
func (p platform) MeWith(ctx context.Context, key secret.Text) (*platformv1.MeResponse, error) {
	as := p.client.Context
	as.Key = key
	other, err := apiclient.New(as)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	return apiclient.Call(ctx, other, other.Auth().Me, &platformv1.MeRequest{})
}

// Runtime implements lifecycle.Platform.
func (p platform) Runtime(ctx context.Context, name string) (*platformv1.Runtime, error) {
	response, err := apiclient.Call(ctx, p.client, p.client.Runtimes().GetRuntime, &platformv1.GetRuntimeRequest{Name: name})
	return response.GetRuntime(), err
}

// FindRuntime implements lifecycle.Platform. Unlike Runtime, a missing runtime
// is not an error.
func (p platform) FindRuntime(ctx context.Context, name string) (*platformv1.Runtime, error) {
	return p.client.FindRuntime(ctx, name)
}

// CheckName implements lifecycle.Platform.
func (p platform) CheckName(ctx context.Context, name string) error {
	return p.client.CheckName(ctx, name)
}

// UninstallRuntime implements lifecycle.Platform.
func (p platform) UninstallRuntime(ctx context.Context, request *platformv1.UninstallRuntimeRequest) error {
	_, err := apiclient.Call(ctx, p.client, p.client.Runtimes().UninstallRuntime, request)
	return err
}

// DeleteRuntime implements lifecycle.Platform.
func (p platform) DeleteRuntime(ctx context.Context, name string) error {
	_, err := apiclient.Call(ctx, p.client, p.client.Runtimes().DeleteRuntime, &platformv1.DeleteRuntimeRequest{Name: name})
	return err
}

// CreateInstallKey implements lifecycle.Platform.
func (p platform) CreateInstallKey(ctx context.Context, name string) (*platformv1.CreateKeyResponse, error) {
	return p.client.CreateInstallKey(ctx, name)
}

// RevokeKey implements lifecycle.Platform, for keys of failed installations.
func (p platform) RevokeKey(ctx context.Context, id string) error { return p.client.RevokeKey(ctx, id) }

// GitSettings implements lifecycle.Platform.
func (p platform) GitSettings(ctx context.Context) (*platformv1.GitSettings, error) {
	response, err := apiclient.Call(ctx, p.client, p.client.Git().GetGitSettings, &platformv1.GetGitSettingsRequest{})
	return response.GetSettings(), err
}

// SetRuntimeCredentials implements lifecycle.Platform. A refusal of the runtime
// is final; lifecycle retries other errors, because the runtime may not be
// reachable yet.
func (p platform) SetRuntimeCredentials(ctx context.Context, runtime string, request *runtimev1.SetRuntimeCredentialsRequest) (final bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, apiclient.RequestTimeout)
	defer cancel()
	_, err = p.client.Integrations(runtime).SetRuntimeCredentials(bounded, connect.NewRequest(request))
	// CodeOf returns CodeUnknown for errors without a code.
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodePermissionDenied, connect.CodeUnauthenticated:
		final = err != nil
	}
	return final, p.client.Explain(ctx, err)
}

// ForPreflight implements lifecycle.Platform.
func (p platform) ForPreflight() *preflight.Platform { return p.client.ForPreflight() }

// finish turns an error of lifecycle into one of the command line, with exit
// code 2 for wrong input and text that is safe for a terminal.
func finish(err error) error {
	var invalid lifecycle.InvalidError
	switch {
	case errors.Is(err, lifecycle.ErrNoPlatform):
		return exit.UsageError{Err: apiclient.ErrNoPlatform}
	case errors.As(err, &invalid):
		if top, ok := err.(lifecycle.InvalidError); ok {
			err = top.Err // joined errors are printed as a list
		}
		return exit.UsageError{Err: printable(err)}
	}
	return printable(err)
}

// printable makes the text of an error safe for a terminal. It keeps joined
// errors apart, because the caller prints them as a list, and keeps the chain
// for errors.Is and errors.As.
func printable(err error) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, each := range joined.Unwrap() {
			all = append(all, printable(each))
		}
		return errors.Join(all...)
	}
	if text := printer.PrintableLines(err.Error()); text != err.Error() {
		return printableError{text, err}
	}
	return err
}

// printableError is an error with its text replaced.
type printableError struct {
	text string
	err  error
}

// Error returns the printable text.
func (e printableError) Error() string { return e.text }

// Unwrap returns the original error.
func (e printableError) Unwrap() error { return e.err }
