package integration

import (
	"context"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

// UserAccess returns how the user of a request writes to a repository of the
// account's provider: with the user's own token. It is nil for a user who has
// none, for whom the runtime writes with its own. A token is not required,
// because who can write to the Shared Configuration Repository can change all of
// it: users with rights on a project only must not need that.
func (s *Service) UserAccess(ctx context.Context, repoURL string) (*sharedrepo.UserAccess, error) {
	claims, err := requireUser(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.tokenFor(ctx, claims)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, nil
	}
	return s.userAccess(ctx, r, claims.UserID, repoURL)
}

// tokenFor returns the integration with the user's token for the provider of
// the account, and default before others; nil if there is none. A token for
// another provider is of no use for the Shared Configuration Repository.
func (s *Service) tokenFor(ctx context.Context, claims wire.RuntimeClaims) (*record, error) {
	kind, apiURL, err := s.target("", "")
	if err != nil {
		return nil, err
	}
	records, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	var found *record
	for _, r := range records {
		switch {
		case r.users[claims.UserID].User == "", r.Provider != string(kind), r.APIURL != apiURL:
		// The user was an admin when the token was stored.
		case r.Sharing == sharingAdmins && claims.Role != permission.RoleAdmin:
		case found == nil || r.name == defaultName:
			found = r
		}
	}
	return found, nil
}

// userAccess returns the access with a stored token. The connection is the
// runtime's, with its proxy and authorities; who authenticates is the user.
func (s *Service) userAccess(ctx context.Context, r *record, user, repoURL string) (*sharedrepo.UserAccess, error) {
	token, username, err := s.UserToken(ctx, r.name, user)
	if err != nil {
		return nil, err
	}
	kind := gitprovider.Kind(r.Provider)
	address, err := gitprovider.ParseAddress(repoURL)
	if err != nil {
		return nil, toConnectError(err)
	}
	// A token does not open SSH. The provider knows the other address.
	if address.SSH {
		provider, err := s.provider(ctx, providerChoice{kind: kind, apiURL: r.APIURL, clear: clearToken{Token: token, Username: username}})
		if err != nil {
			return nil, toConnectError(err)
		}
		found, err := provider.Repository(ctx, repoURL)
		if err != nil {
			return nil, toConnectError(err)
		}
		repoURL = found.CloneURL
	}
	// An admin sets the address of the repository. That must not be a way to
	// have the tokens of users sent to another server.
	if err := gitprovider.OnServer(kind, r.APIURL, repoURL); err != nil {
		return nil, toConnectError(err)
	}
	access, err := s.Access(ctx, "", repoURL)
	if err != nil {
		return nil, toConnectError(err)
	}
	runtime := access.Credential
	access.Credential = credential.Credential{
		Username: gitUser(kind, username), Password: token, Insecure: runtime.Insecure, Proxy: runtime.Proxy, NoProxy: runtime.NoProxy,
		ClientCertificate: runtime.ClientCertificate, ClientKey: runtime.ClientKey,
	}
	return &sharedrepo.UserAccess{RepoURL: repoURL, Access: access}, nil
}
