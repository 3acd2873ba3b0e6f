package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

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

// terminalUI is the lifecycle.UI of a command: questions, notes and findings on
// standard error, plans and results on standard output.
type terminalUI struct {
	command *cobra.Command
	// leftovers is the form of an uninstall's leftovers; nil for the table.
	leftovers *printer.Output
}

// newUI returns the UI of a command.
func newUI(command *cobra.Command) *terminalUI { return &terminalUI{command: command} }

// Note implements lifecycle.UI.
func (u *terminalUI) Note(format string, args ...any) { printer.Note(u.command, format, args...) }

// Confirm implements lifecycle.UI.
func (u *terminalUI) Confirm(question string, yes bool) error {
	return prompt.New(u.command).Confirm(printer.Printable(question), yes)
}

// ReadSecret implements lifecycle.UI.
func (u *terminalUI) ReadSecret(path, what string) (secret.Text, error) {
	return prompt.ReadSecret(u.command, path, what)
}

// WriteSecret implements lifecycle.UI.
func (u *terminalUI) WriteSecret(path string, text secret.Text) error {
	return files.WritePrivate(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text.Reveal())
		return err
	})
}

// Input implements lifecycle.UI.
func (u *terminalUI) Input() io.Reader { return u.command.InOrStdin() }

// Output implements lifecycle.UI. What is written to it is made printable, because
// notes of a chart come from elsewhere.
func (u *terminalUI) Output() io.Writer { return printableWriter{u.command.OutOrStdout()} }

// printableWriter makes text safe for a terminal. Writers of whole lines use it.
type printableWriter struct{ w io.Writer }

// Write writes text without control characters, and reports its original length.
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

// ShowRemoval implements lifecycle.UI.
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

// ShowReport implements lifecycle.UI.
func (u *terminalUI) ShowReport(found validate.Report) error {
	return report.Values(u.command.ErrOrStderr(), "text", found)
}

// ShowCheck implements lifecycle.UI.
func (u *terminalUI) ShowCheck(result preflight.Result) {
	report.Check(u.command.ErrOrStderr(), result)
}

// ShowLeftovers implements lifecycle.UI.
func (u *terminalUI) ShowLeftovers(left []release.Leftover) error {
	w := u.command.OutOrStdout()
	if u.leftovers != nil && u.leftovers.Form != printer.FormTable {
		return u.leftovers.Encode(w, map[string]any{"leftovers": left})
	}
	return printLeftovers(w, left)
}

// printLeftovers prints what is left, each with the command that removes it.
func printLeftovers(w io.Writer, left []release.Leftover) error {
	if len(left) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is left.")
		return err
	}
	_, _ = fmt.Fprintf(w, "%d things are left:\n", len(left))
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

// platform is a client as lifecycle.Platform.
type platform struct{ client *apiclient.Client }

// withOptionalPlatform calls run with the chosen platform, or with nil if none is
// chosen: Helm releases can be worked on without one.
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

// Authorities implements lifecycle.Platform.
func (p platform) Authorities() ([]byte, error) { return files.ReadAuthorities(p.client.CAFile) }

// Key implements lifecycle.Platform.
func (p platform) Key() secret.Text { return p.client.Key }

// Me implements lifecycle.Platform.
func (p platform) Me(ctx context.Context) (*platformv1.MeResponse, error) {
	return apiclient.Call(ctx, p.client, p.client.Auth().Me, &platformv1.MeRequest{})
}

// MeWith implements lifecycle.Platform.
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

// FindRuntime implements lifecycle.Platform.
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

// RevokeKey implements lifecycle.Platform.
func (p platform) RevokeKey(ctx context.Context, id string) error { return p.client.RevokeKey(ctx, id) }

// GitSettings implements lifecycle.Platform.
func (p platform) GitSettings(ctx context.Context) (*platformv1.GitSettings, error) {
	response, err := apiclient.Call(ctx, p.client, p.client.Git().GetGitSettings, &platformv1.GetGitSettingsRequest{})
	return response.GetSettings(), err
}

// SetRuntimeCredentials implements lifecycle.Platform. A refusal of the runtime is
// final; a runtime that cannot be reached yet is not.
func (p platform) SetRuntimeCredentials(ctx context.Context, runtime string, request *runtimev1.SetRuntimeCredentialsRequest) (final bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, apiclient.RequestTimeout)
	defer cancel()
	_, err = p.client.Integrations(runtime).SetRuntimeCredentials(bounded, connect.NewRequest(request))
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodePermissionDenied, connect.CodeUnauthenticated:
		final = err != nil
	}
	return final, p.client.Explain(ctx, err)
}

// ForPreflight implements lifecycle.Platform.
func (p platform) ForPreflight() *preflight.Platform { return p.client.ForPreflight() }

// finish turns an error of lifecycle into one of the command line: with the exit code
// for wrong input, and with text that is safe for a terminal.
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

// printable makes the text of an error safe for a terminal.
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

// printableError is an error with another text.
type printableError struct {
	text string
	err  error
}

// Error returns the printable text.
func (e printableError) Error() string { return e.text }

// Unwrap returns the original error.
func (e printableError) Unwrap() error { return e.err }
