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
	fresh, err := g.completeSettings(ctx, request.Msg.GetSettings())
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

// GetTokenHelp describes the tokens of a provider, or of that of the account.
func (g gitService) GetTokenHelp(ctx context.Context, request *connect.Request[platformv1.GetTokenHelpRequest]) (*connect.Response[platformv1.GetTokenHelpResponse], error) {
	provider, api := request.Msg.GetProvider(), request.Msg.GetApiUrl()
	if provider == "" {
		accountID, err := account(ctx)
		if err != nil {
			return nil, err
		}
		settings, err := g.store.GitSettings(ctx, accountID)
		if errors.Is(err, store.ErrNotFound) {
			return connect.NewResponse(&platformv1.GetTokenHelpResponse{}), nil
		}
		if err != nil {
			return nil, g.apiError(err)
		}
		provider, api = settings.Provider, settings.APIURL
	}
	kind, err := gitprovider.ParseKind(provider)
	if err != nil {
		return nil, invalid("%w", err)
	}
	return connect.NewResponse(&platformv1.GetTokenHelpResponse{
		Runtime: helpMessage(gitprovider.HelpFor(kind, api, gitprovider.RuntimeToken)), User: helpMessage(gitprovider.HelpFor(kind, api, gitprovider.UserToken)),
	}), nil
}

// helpMessage converts the help to its API message.
func helpMessage(help gitprovider.TokenHelp) *platformv1.TokenHelp {
	return &platformv1.TokenHelp{Page: help.Page, Needs: help.Needs, FineGrained: help.FineGrained, Username: help.Username, SshKeys: help.SSHKeys}
}

// completeSettings validates the settings and derives provider and API URL
// from the repository URL where they are not given (R57, R58, R59). A server
// whose name is inconclusive is probed.
func (g gitService) completeSettings(ctx context.Context, given *platformv1.GitSettings) (store.GitSettings, error) {
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
		// The platform may be in another network than the runtimes, so that a
		// server that it cannot reach is no reason to refuse a given provider.
		if kind, api, err = gitprovider.Probe(ctx, shared.RepoURL, g.options.Outbound, nil); err != nil {
			return store.GitSettings{}, invalid("the Git provider cannot be inferred from the repository URL, and the platform could not find it out (%w): set it to github, gitlab, bitbucket or bitbucket-server, with its API URL, or to git for another server", err)
		}
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
