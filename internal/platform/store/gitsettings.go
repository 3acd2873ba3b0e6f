package store

import (
	"context"
	"errors"
)

// GitSettings holds the Git provider and the Shared Configuration Repository
// of an account. It contains no token: tokens stay in the clusters.
type GitSettings struct {
	AccountID, Provider, APIURL, SharedRepository string
	Validated                                     bool
}

// GitSettings returns the settings of an account.
func (s *Store) GitSettings(ctx context.Context, accountID string) (GitSettings, error) {
	return readValue(ctx, s, func(c *call) (GitSettings, error) { return gitSettings(c, accountID) })
}

func gitSettings(c *call, accountID string) (GitSettings, error) {
	scan := func(r row) (g GitSettings, err error) {
		return g, r.Scan(&g.AccountID, &g.Provider, &g.APIURL, &g.SharedRepository, &g.Validated)
	}
	return queryOne(c, scan, "SELECT account_id, provider, api_url, shared_repository, validated FROM git_settings WHERE account_id = $1", accountID)
}

// UpdateGitSettings reads the settings of an account (empty ones if there are
// none), applies change and stores the result, in one transaction. change may
// be called more than once; its error aborts the update and is returned
// unchanged. Unchanged settings are not written.
func (s *Store) UpdateGitSettings(ctx context.Context, accountID string, change func(*GitSettings) error) (GitSettings, error) {
	var after GitSettings
	err := s.write(ctx, func(c *call) error {
		before, err := gitSettings(c, accountID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		after = before
		if err := change(&after); err != nil || after == before {
			return err
		}
		after.AccountID = accountID
		return putGitSettings(c, after)
	})
	if err != nil {
		return GitSettings{}, err
	}
	return after, nil
}

func putGitSettings(c *call, settings GitSettings) error {
	_, err := c.exec(`INSERT INTO git_settings (account_id, provider, api_url, shared_repository, validated) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account_id) DO UPDATE SET provider = excluded.provider, api_url = excluded.api_url,
			shared_repository = excluded.shared_repository, validated = excluded.validated`,
		settings.AccountID, settings.Provider, settings.APIURL, settings.SharedRepository, settings.Validated)
	return err
}

// DeleteGitSettings deletes the settings of an account. It is idempotent.
func (s *Store) DeleteGitSettings(ctx context.Context, accountID string) error {
	_, err := s.exec(ctx, "DELETE FROM git_settings WHERE account_id = $1", accountID)
	return err
}
