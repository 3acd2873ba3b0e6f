// Package platformcmd is the command slipway platform: it runs the control
// plane, and the tasks that work on its database (backup, restore, rotate-keys,
// reset-password, reset-second-factor, create-key) whether the platform runs or not.
package platformcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/roleflags"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/observe/roleserver"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/platform/history"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/permission"
)

// Command returns the command slipway platform. Cobra does not parse its flags:
// internal/config parses options from files, environment and flags alike.
func Command() *cobra.Command {
	command := &cobra.Command{
		Use:   "platform [options]",
		Short: "Run the control plane: accounts, runtimes and what they report",
		Long: `Runs the control plane: accounts, users and keys, the runtimes that have joined and
their reports about applications, and the connections to them. It has no other
dependency: its database is a SQLite file, or PostgreSQL for several replicas.

The first start creates an account and an admin, and prints the admin's password
once, on standard output. It runs until SIGINT or SIGTERM, then drains active
requests. A second signal stops it at once, with exit code 130.`,
		Example: `  slipway platform
  slipway platform --server.address=:443 --server.publicURL=https://slipway.example.com --tls.certFile=tls.crt --tls.keyFile=tls.key
  slipway platform --configFile=platform.yaml --print-config
  slipway platform backup platform.backup`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true, // Use has "[options]"
		RunE:                  run,
		ValidArgsFunction:     roleflags.Complete(config.PlatformOptions),
	}
	command.SetHelpFunc(func(command *cobra.Command, _ []string) { roleflags.PrintHelp(command, config.PlatformOptions()) })
	command.AddCommand(platformTasks()...)
	return command
}

// run loads the options, and then prints help, prints the effective
// configuration, or runs the platform. --print-config validates too: a wrong
// configuration is an error and prints nothing.
func run(command *cobra.Command, args []string) error {
	loaded, err := config.LoadPlatform(roleflags.Sources(args))
	options := loaded.Platform
	if begins, err := roleflags.Begin(command, loaded, err, options); !begins {
		return err
	}
	log, err := observe.NewLogger(command.ErrOrStderr(), options.Log.Level, options.Log.Format)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	roleflags.LogStart(log, "platform", loaded.File, options.Changes())
	return serve(command.Context(), options, log, command.OutOrStdout())
}

// serve runs the platform with its health and admin servers until ctx ends.
// State and keys are prepared before the servers start: a wrong state folder
// ends the process with an error, instead of a platform that never becomes
// ready.
func serve(ctx context.Context, options *config.Platform, log *slog.Logger, out io.Writer) error {
	facts := buildinfo.Read()
	// The order matters: prepare makes the folders in which key creates the key
	// file at the first start.
	place, err := platformPlaceOf(options)
	if err != nil {
		return err
	}
	if err := place.prepare(); err != nil {
		return err
	}
	given, err := platformOptions(options, log)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	// With PostgreSQL the folder is empty, and the platform opens no control
	// socket.
	given.Database, given.ControlDir = secret.New(place.database), place.dir
	if given.Key, err = place.key(); err != nil {
		return err
	}
	given.Log, given.Metrics, given.Health, given.Version = log, observe.NewMetrics(facts.Version, facts.Commit), &observe.Health{}, facts.Version
	// Both functions are injected: the platform may not import the validation
	// of values, and only the command owns standard output.
	given.Values = checkValues
	given.Announce = func(email string, password secret.Text) error { return announce(out, email, password) }
	return roleserver.Server{
		Role: "platform", Admin: options.Admin.Address, Health: options.Health.Address,
		Log: log, Metrics: given.Metrics, State: given.Health,
	}.Run(ctx, func(running context.Context) error {
		// The listener opens after the health server, so that probes get a
		// response while the database is migrated.
		if given.Listener, err = roleserver.Listen(running, "server.address", options.Server.Address); err != nil {
			return err
		}
		// For a start without configuration: the URL is the address that was
		// opened.
		if options.Server.PublicURL == "" {
			given.PublicURL.Host = given.Listener.Addr().String()
		}
		given.TunnelURL = tunnelURL(options.Tunnel.URL, given.PublicURL)
		if given.Audit.Logs, err = auditLogs(options.Audit, log); err != nil {
			return errors.Join(err, given.Listener.Close())
		}
		return server.Run(running, given)
	})
}

// announce prints the password of the first admin on standard output. The
// password is not stored in clear, so an error names the command that sets a
// new one.
func announce(out io.Writer, email string, password secret.Text) error {
	_, err := fmt.Fprintf(out, "The first account was made. Sign in once with this password, and choose another:\n  email:    %s\n  password: %s\n", email, password.Reveal())
	if err != nil {
		return fmt.Errorf("the password of the first admin could not be printed: run slipway platform reset-password %s: %w", email, err)
	}
	return nil
}

// platformOptions converts validated options for the server. It reads the
// certificate and CA files, and fails if they are missing or invalid.
func platformOptions(options *config.Platform, log *slog.Logger) (server.Options, error) {
	given := server.Options{
		TunnelDomain: options.Tunnel.Domain, PeerURL: options.Peer.BaseURL(),
		FirstStart:   server.FirstStart{Account: options.FirstStart.Account, Email: options.FirstStart.Email},
		SignIn:       signInPolicy(options),
		KeyLifetimes: identity.KeyLifetimes{Default: time.Duration(options.Keys.DefaultLifetime), Max: time.Duration(options.Keys.MaxLifetime)},
		Audit:        server.AuditOptions{Retention: time.Duration(options.Audit.Retention)},
		History:      history.Retention{Deployments: time.Duration(options.History.Deployments), Traffic: time.Duration(options.History.Traffic)},
	}
	scheme := "http"
	if options.TLS.CertFile != "" {
		certificate, err := server.LoadCertificate(options.TLS.CertFile, options.TLS.KeyFile, log)
		if err != nil {
			return given, err
		}
		given.Certificate, scheme = certificate, "https"
	}
	if options.Runtimes.CAFile != "" {
		bundle, err := server.LoadCABundle(options.Runtimes.CAFile, log)
		if err != nil {
			return given, fmt.Errorf("runtimes.caFile: %w", err)
		}
		given.RuntimeCAs = bundle
	}
	// Without a public URL the host stays empty; serve fills in the address of
	// the listener.
	given.PublicURL = &url.URL{Scheme: scheme}
	if options.Server.PublicURL != "" {
		public, err := url.Parse(strings.TrimSuffix(options.Server.PublicURL, "/"))
		if err != nil {
			return given, err
		}
		given.PublicURL = public
	}
	if options.OIDC != nil {
		given.OIDC = oidcOptions(options.OIDC)
	}
	var errProxies, errRights error
	given.TrustedProxies, errProxies = config.ParseNetworks(options.Server.TrustedProxies)
	allowed, errAllowed := config.ParseNetworks(options.Outbound.Allow)
	given.Outbound = outbound.New(allowed...)
	given.Rights, errRights = rightsPolicy(options.Rights)
	return given, errors.Join(errProxies, errAllowed, errRights)
}

// rightsPolicy parses the rules of the platform. A platform with a rule that has
// no effect does not start: it may be one that denies.
func rightsPolicy(options config.Rights) (*rights.Policy, error) {
	policy, refused := rights.ParseMode(options.Policy, "rights.policy", rights.Mode(options.MatchMode))
	if options.PolicyFile != "" {
		text, err := files.ReadBounded(options.PolicyFile, files.MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("rights.policyFile: %w", err)
		}
		more, problems := rights.ParseMode(string(text), filepath.Base(options.PolicyFile), rights.Mode(options.MatchMode))
		policy, refused = rights.Merge(policy, more), append(refused, problems...)
	}
	if len(refused) > 0 {
		return nil, errors.New(refusal.Summary(refused))
	}
	return policy.WithDefault(options.PolicyDefault), nil
}

// signInPolicy converts the options for how users sign in.
func signInPolicy(options *config.Platform) identity.SignInPolicy {
	return identity.SignInPolicy{
		PasswordsDisabled:    options.Identity.Passwords == config.PasswordsDisabled,
		SecondFactorRequired: options.Identity.SecondFactor == config.SecondFactorRequired,
	}
}

// auditLogs returns the exporter of audit entries, or nil without a collector.
func auditLogs(audit config.AuditLog, log *slog.Logger) (*otlp.Logs, error) {
	collector := audit.OTLP.HTTP
	if collector.Endpoint == "" {
		return nil, nil
	}
	logs, err := otlp.NewLogs(otlp.LogOptions{
		Collector:   otlp.Collector{Endpoint: collector.Endpoint, Headers: collector.Headers, TLS: otlp.TLS(collector.TLS)},
		ServiceName: "slipway-platform", Version: buildinfo.Read().Version, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("audit.otlp.http: %w", err)
	}
	return logs, nil
}

// oidcOptions converts validated options of the identity provider. A claim value
// that is in several lists has the highest role.
func oidcOptions(options *config.OIDC) *identity.OIDCOptions {
	given := &identity.OIDCOptions{
		Name: options.Name, Issuer: options.Issuer, ClientID: options.ClientID, ClientSecret: options.ClientSecret,
		AllowedDomains: options.AllowedDomains, CreateUsers: options.CreateUsers, RoleClaim: options.RoleClaim,
		Roles: map[string]store.Role{}, GroupsClaim: options.GroupsClaim,
	}
	role, _ := permission.ParseRole(options.DefaultRole) // it is validated
	given.DefaultRole = store.Role(role)
	for _, mapping := range []struct {
		values []string
		role   store.Role
	}{{options.ViewerValues, store.RoleViewer}, {options.OperatorValues, store.RoleOperator}, {options.AdminValues, store.RoleAdmin}} {
		for _, value := range mapping.values {
			given.Roles[value] = mapping.role
		}
	}
	return given
}

// tunnelURL returns the URL that agents open their tunnels to: the public URL
// with a WebSocket scheme, unless another is configured.
func tunnelURL(text string, public *url.URL) string {
	target := *public
	if text != "" {
		// The validation has refused a URL that does not parse.
		if given, err := url.Parse(strings.TrimSuffix(text, "/")); err == nil {
			target = *given
		}
	}
	switch target.Scheme {
	case "https":
		target.Scheme = "wss"
	case "http":
		target.Scheme = "ws"
	}
	return target.String()
}

// stateFolder returns the folder of the platform's state: the option, or the
// XDG location. It does not create the folder. A home directory that is unknown
// is an error: a guess could put the database into a temporary folder.
func stateFolder(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	// The XDG specification requires absolute paths; relative ones are ignored.
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "slipway", "platform"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the state: %w: set --state.dir", err)
	}
	return filepath.Join(home, ".local", "state", "slipway", "platform"), nil
}
