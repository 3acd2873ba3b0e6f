package fleet

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// gitService implements GitService.
type gitService struct{ *Fleet }

// GetGitSettings returns the settings; they are empty when none are set.
func (g gitService) GetGitSettings(ctx context.Context, _ *connect.Request[platformv1.GetGitSettingsRequest]) (*connect.Response[platformv1.GetGitSettingsResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := g.store.GitSettings(ctx, accountID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, g.apiError(err)
	}
	return connect.NewResponse(&platformv1.GetGitSettingsResponse{Settings: settingsMessage(settings)}), nil
}

// SetGitSettings stores the settings of the account until a runtime has
// validated them (R56, R115).
func (g gitService) SetGitSettings(ctx context.Context, request *connect.Request[platformv1.SetGitSettingsRequest]) (*connect.Response[platformv1.SetGitSettingsResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := completeSettings(request.Msg.GetSettings())
	if err != nil {
		return nil, err
	}
	fresh.AccountID = accountID
	// The check runs inside of the transaction: a heartbeat may validate the
	// settings at the same time.
	stored, err := g.store.UpdateGitSettings(ctx, accountID, func(settings *store.GitSettings) error {
		wanted := fresh
		wanted.Validated = settings.Validated
		if settings.Validated && wanted != *settings {
			return failedPrecondition("a runtime uses the Git settings of the account, and all runtimes share them: they cannot be changed; reset them when no runtime is online")
		}
		*settings = wanted
		return nil
	})
	if err != nil {
		return nil, g.apiError(err)
	}
	return connect.NewResponse(&platformv1.SetGitSettingsResponse{Settings: settingsMessage(stored)}), nil
}

// ResetGitSettings deletes settings that no runtime has validated, or those
// of an account without online runtimes (R115).
func (g gitService) ResetGitSettings(ctx context.Context, _ *connect.Request[platformv1.ResetGitSettingsRequest]) (*connect.Response[platformv1.ResetGitSettingsResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := g.store.GitSettings(ctx, accountID)
	if errors.Is(err, store.ErrNotFound) {
		return connect.NewResponse(&platformv1.ResetGitSettingsResponse{}), nil
	}
	if err != nil {
		return nil, g.apiError(err)
	}
	if settings.Validated {
		runtimes, err := g.allRuntimes(ctx, accountID)
		if err != nil {
			return nil, g.apiError(err)
		}
		// An online runtime uses the settings right now.
		if at := slices.IndexFunc(runtimes, g.online); at >= 0 {
			return nil, failedPrecondition("the runtime %q is online and uses the Git settings: uninstall or stop the account's runtimes first", runtimes[at].Name)
		}
	}
	if err := g.store.DeleteGitSettings(ctx, accountID); err != nil {
		return nil, g.apiError(err)
	}
	return connect.NewResponse(&platformv1.ResetGitSettingsResponse{}), nil
}

// settingsMessage converts settings to their API message.
func settingsMessage(settings store.GitSettings) *platformv1.GitSettings {
	return &platformv1.GitSettings{
		Provider: settings.Provider, ApiUrl: settings.APIURL,
		SharedRepository: settings.SharedRepository, Validated: settings.Validated,
	}
}

// completeSettings validates the settings and derives provider and API URL
// from the repository URL where they are not given (R57, R58, R59).
func completeSettings(given *platformv1.GitSettings) (store.GitSettings, error) {
	shared, err := wire.ParseSharedRepository(given.GetSharedRepository())
	if err != nil {
		return store.GitSettings{}, invalid("%w", err)
	}
	// An explicit provider overrides the inferred one; its API URL is then
	// derived from the host.
	kind, api, known := gitprovider.Infer(shared.RepoURL)
	if given.GetProvider() != "" && given.GetProvider() != string(kind) {
		if kind, err = gitprovider.ParseKind(given.GetProvider()); err != nil {
			return store.GitSettings{}, invalid("%w", err)
		}
		api = ""
	} else if !known {
		return store.GitSettings{}, invalid("the Git provider cannot be inferred from the repository URL: set it to github, gitlab, bitbucket, bitbucket-server, or git for another server")
	}
	if len(given.GetApiUrl()) > maxField {
		return store.GitSettings{}, invalid("the API URL has %d characters; at most %d are possible", len(given.GetApiUrl()), maxField)
	}
	switch {
	case given.GetApiUrl() != "":
		api, err = gitprovider.DefaultAPI(kind, given.GetApiUrl())
	case api == "":
		api, err = gitprovider.DefaultAPI(kind, repositoryHost(shared.RepoURL))
	}
	if err != nil {
		return store.GitSettings{}, invalid("%w", err)
	}
	return store.GitSettings{Provider: string(kind), APIURL: api, SharedRepository: shared.String()}, nil
}

// repositoryHost returns the server of a repository, without the port for
// SSH: the API has another one.
func repositoryHost(repository string) string {
	if u, err := url.Parse(repository); err == nil && u.Host != "" {
		if u.Scheme == "ssh" {
			return u.Hostname()
		}
		return u.Scheme + "://" + u.Host
	}
	_, rest, _ := strings.Cut(repository, "@")
	host, _, _ := strings.Cut(rest, ":")
	return host
}
