package lifecycle

import (
	"context"
	"io"

	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// UI is how an operation talks to the user. An implementation makes text safe for
// its output: names and messages come from clusters and platforms.
type UI interface {
	// Note shows a message that is not a result.
	Note(format string, args ...any)
	// Confirm requests the user's agreement to a change and returns an error
	// without it. yes is the agreement in advance.
	Confirm(question string, yes bool) error
	// ReadSecret reads a file with one secret; what names it in messages.
	ReadSecret(path, what string) (secret.Text, error)
	// WriteSecret writes a file that only its owner can read.
	WriteSecret(path string, text secret.Text) error
	// Input is read for a values file that is named "-".
	Input() io.Reader
	// Output takes results, such as the command of --print.
	Output() io.Writer
	// ShowPlan shows what an operation will do.
	ShowPlan(plan *release.Plan) error
	// ShowRemoval shows what an uninstall will delete.
	ShowRemoval(objects []release.ID) error
	// ShowReport shows the validation of values, and ShowCheck a preflight check that
	// found something.
	ShowReport(report validate.Report) error
	ShowCheck(result preflight.Result)
	// ShowLeftovers shows what an uninstall could not or may not delete.
	ShowLeftovers(left []release.Leftover) error
}

// Platform is the part of a platform's API that operations need, authenticated
// as one user. Operations pass its errors on to the user, so each names the
// next step.
type Platform interface {
	// BaseURL is the URL of the platform without a slash at the end.
	BaseURL() string
	// CAFile is the file with the CA certificates of the platform, and Authorities its
	// content; both are empty if the system's roots verify it.
	CAFile() string
	Authorities() ([]byte, error)
	// Key is the API key of the user.
	Key() secret.Text
	// Me returns the user, and MeWith the user of another key.
	Me(ctx context.Context) (*platformv1.MeResponse, error)
	MeWith(ctx context.Context, key secret.Text) (*platformv1.MeResponse, error)
	// Runtime returns a runtime, and an error if there is none. FindRuntime returns nil
	// instead.
	Runtime(ctx context.Context, name string) (*platformv1.Runtime, error)
	FindRuntime(ctx context.Context, name string) (*platformv1.Runtime, error)
	// CheckName refuses a name that a runtime cannot have.
	CheckName(ctx context.Context, name string) error
	// UninstallRuntime has an online runtime clean up and leave. DeleteRuntime removes
	// the registration of an offline one.
	UninstallRuntime(ctx context.Context, request *platformv1.UninstallRuntimeRequest) error
	DeleteRuntime(ctx context.Context, name string) error
	// CreateInstallKey creates a key that only registers runtimes.
	CreateInstallKey(ctx context.Context, name string) (*platformv1.CreateKeyResponse, error)
	// RevokeKey invalidates a key that was created for an operation which
	// failed.
	RevokeKey(ctx context.Context, id string) error
	// GitSettings returns the Git settings of the account.
	GitSettings(ctx context.Context) (*platformv1.GitSettings, error)
	// SetRuntimeCredentials gives a runtime its Git token. final reports that another
	// attempt would fail the same way.
	SetRuntimeCredentials(ctx context.Context, runtime string, request *runtimev1.SetRuntimeCredentialsRequest) (final bool, err error)
	// ForPreflight is the platform as the preflight checks need it.
	ForPreflight() *preflight.Platform
}

// InvalidError is an error of the input: the user has to correct an option, a file
// or a name, and the same input will fail again.
type InvalidError struct{ Err error }

// Error returns the message of the cause.
func (e InvalidError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e InvalidError) Unwrap() error { return e.Err }
