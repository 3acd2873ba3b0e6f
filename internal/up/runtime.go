package up

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

const (
	runtimePart = "runtime"
	// gitProvider is the kind of our Git server at the platform, and gitUser the
	// name that is sent with its password.
	gitProvider = "git"
	gitUser     = "slipway"
	// sourceName is the name of the Git Source.
	sourceName = "apps"
)

// runtimeStatus is the part of a scene about the completed installation.
type runtimeStatus struct {
	// detail describes the state of the runtime.
	detail string
	// credentials and userToken are set once this run has stored them.
	credentials, userToken bool
}

// provideGitSettings gives the account a Shared Configuration Repository, unless
// it has one. The agent starts after it, so that its first heartbeat brings the
// settings.
func (s *scene) provideGitSettings(ctx context.Context) error {
	if s.git.missing != "" || s.state.marker.RuntimeComplete {
		return nil
	}
	client, err := s.adminClient()
	if err != nil {
		return err
	}
	git := platformv1connect.NewGitServiceClient(client, s.platformURL())
	found, err := git.GetGitSettings(ctx, connect.NewRequest(&platformv1.GetGitSettingsRequest{}))
	if err == nil && found.Msg.GetSettings().GetSharedRepository() == "" {
		_, err = git.SetGitSettings(ctx, connect.NewRequest(&platformv1.SetGitSettingsRequest{
			Settings: &platformv1.GitSettings{Provider: gitProvider, SharedRepository: s.lastingURL(sharedRepository)},
		}))
	}
	if err != nil {
		return fmt.Errorf("set the Shared Configuration Repository of the account: %w", err)
	}
	return nil
}

// runtimeReady completes the installation of the runtime once: Git credentials,
// the admin's Git token, and what the shared repository has, which are the
// runtime as an Application and a Git Source. Later starts only show the state.
func runtimeReady(ctx context.Context, s *scene, report func(string)) (string, error) {
	if s.git.missing != "" {
		s.runtime.detail = "not complete: its configuration comes from Git"
		return s.runtime.detail, nil
	}
	c, err := s.newCompletion(ctx)
	if err != nil {
		return "", err
	}
	switch {
	// With a repository of the user's own the rest is the user's too.
	case c.foreign:
		s.runtime.detail, err = c.describe(ctx)
	case s.git.unreached != "":
		s.runtime.detail = "its shared repository is not served: " + s.git.unreached
	case s.state.marker.RuntimeComplete:
		s.runtime.detail, err = c.describe(ctx)
	default:
		s.runtime.detail, err = c.run(ctx, report)
	}
	return s.runtime.detail, err
}

// completion does the steps that are left after the installation of a runtime.
type completion struct {
	*scene
	fleet        platformv1connect.RuntimeServiceClient
	integrations runtimev1connect.IntegrationServiceClient
	// foreign is set if the account has a Shared Configuration Repository of
	// the user's own.
	foreign bool
}

// newCompletion connects to the platform.
func (s *scene) newCompletion(ctx context.Context) (*completion, error) {
	client, err := s.adminClient()
	if err != nil {
		return nil, err
	}
	git := platformv1connect.NewGitServiceClient(client, s.platformURL())
	found, err := git.GetGitSettings(ctx, connect.NewRequest(&platformv1.GetGitSettingsRequest{}))
	if err != nil {
		return nil, fmt.Errorf("read the Git settings of the account: %w", err)
	}
	return &completion{
		scene: s, fleet: platformv1connect.NewRuntimeServiceClient(client, s.platformURL()),
		integrations: runtimev1connect.NewIntegrationServiceClient(client, s.runtimeURL()),
		foreign:      found.Msg.GetSettings().GetSharedRepository() != s.lastingURL(sharedRepository),
	}, nil
}

// run does the steps and waits until the platform shows a complete runtime. In a
// directory of an earlier version a user may have configured something that is
// in the way, which must not keep the rest from running: the next start tries
// again.
func (c *completion) run(ctx context.Context, report func(string)) (string, error) {
	patient := ctx
	if !c.demo.fresh {
		var cancel context.CancelFunc
		patient, cancel = context.WithTimeout(ctx, min(demoTimeout, c.options.Timeout/2))
		defer cancel()
	}
	var missing error
	err := poll(patient, func() bool {
		if missing = c.advance(patient); missing != nil {
			report(missing.Error())
		}
		return missing == nil
	})
	if err != nil && !c.demo.fresh && ctx.Err() == nil {
		return "not complete: " + brief(missing.Error()), nil
	}
	if err != nil {
		return "", err
	}
	if err := c.state.runtimeIsComplete(); err != nil {
		return "", err
	}
	return c.describe(ctx)
}

// advance does the next step and returns what is missing after it. The runtime
// as an Application and the Git Source come from the shared repository, and need
// nothing here.
func (c *completion) advance(ctx context.Context) error {
	if !c.runtime.credentials {
		_, err := c.integrations.SetRuntimeCredentials(ctx, connect.NewRequest(&runtimev1.SetRuntimeCredentialsRequest{
			Username: gitUser, Token: c.git.token,
		}))
		if err != nil {
			return err
		}
		c.runtime.credentials = true
	}
	if !c.runtime.userToken {
		_, err := c.integrations.Register(ctx, connect.NewRequest(&runtimev1.RegisterRequest{Username: gitUser, Token: c.git.token}))
		if err != nil {
			return err
		}
		c.runtime.userToken = true
	}
	found, err := c.fleet.GetRuntime(ctx, connect.NewRequest(&platformv1.GetRuntimeRequest{Name: runtimeName}))
	if err != nil {
		return err
	}
	return incomplete(found.Msg.GetRuntime())
}

// incomplete returns what is missing until a runtime is complete: no pending
// step, its own Application is synced, and so is its Git Source.
func incomplete(runtime *platformv1.Runtime) error {
	if steps := runtime.GetPendingSteps(); len(steps) > 0 {
		words := strings.TrimPrefix(steps[0].String(), "COMPLETION_STEP_")
		return errors.New("waiting for the step " + strings.ToLower(strings.ReplaceAll(words, "_", " ")))
	}
	if runtime.GetSync() != platformv1.SyncStatus_SYNC_STATUS_SYNCED {
		return errors.New("waiting for the sync of the runtime's own Application")
	}
	for _, source := range runtime.GetGitSources() {
		if source.GetName() == sourceName && source.GetSync() == platformv1.SyncStatus_SYNC_STATUS_SYNCED {
			return nil
		}
	}
	return errors.New("waiting for the sync of the Git Source " + sourceName)
}

// describe returns the state of the runtime as the platform shows it.
func (c *completion) describe(ctx context.Context) (string, error) {
	found, err := c.fleet.GetRuntime(ctx, connect.NewRequest(&platformv1.GetRuntimeRequest{Name: runtimeName}))
	if err != nil {
		return "", err
	}
	runtime := found.Msg.GetRuntime()
	if len(runtime.GetPendingSteps()) > 0 {
		return "installation not complete: see slipway runtime get " + runtimeName, nil
	}
	var sources []string
	for _, one := range runtime.GetGitSources() {
		sources = append(sources, one.GetName())
	}
	if len(sources) == 0 {
		return "installation complete", nil
	}
	return "installation complete, with Git Source " + strings.Join(sources, ", "), nil
}

// showRuntime returns the runtime's row and hints.
func showRuntime(s *scene) (Row, []Hint) {
	row := Row{Part: runtimePart, Detail: s.runtime.detail}
	if s.git.missing != "" {
		return row, nil
	}
	row.Address = s.lastingURL(sharedRepository)
	clone := fmt.Sprintf("git clone http://%s:\"$(cat %s)\"@%s", gitUser, shellQuote(filepath.Join(s.state.path(gitName), gitTokenFile)),
		strings.TrimPrefix(s.lastingURL(appsRepository), "http://"))
	return row, []Hint{{"see the runtime", s.asAdmin("runtime get " + runtimeName)}, {"clone the Git Source", clone}}
}
