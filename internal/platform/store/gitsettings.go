package store

import "context"

// GitSettings is the Git provider and the Shared Configuration Repository of an
// account. No token is here.
type GitSettings struct {
	AccountID, Provider, APIURL, SharedRepository string
	Validated                                     bool
}

// GitSettings finds the settings of an account.
func (s *Store) GitSettings(ctx context.Context, accountID string) (settings GitSettings, err error) {
	scan := func(r row) (g GitSettings, err error) {
		return g, r.Scan(&g.AccountID, &g.Provider, &g.APIURL, &g.SharedRepository, &g.Validated)
	}
	err = s.read(ctx, func(c *call) error {
		settings, err = queryOne(c, scan, "SELECT account_id, provider, api_url, shared_repository, validated FROM git_settings WHERE account_id = $1", accountID)
		return err
	})
	return settings, err
}

// PutGitSettings stores the settings of an account.
func (s *Store) PutGitSettings(ctx context.Context, settings GitSettings) error {
	return s.write(ctx, func(c *call) error {
		_, err := c.exec(`INSERT INTO git_settings (account_id, provider, api_url, shared_repository, validated) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_id) DO UPDATE SET provider = excluded.provider, api_url = excluded.api_url,
				shared_repository = excluded.shared_repository, validated = excluded.validated`,
			settings.AccountID, settings.Provider, settings.APIURL, settings.SharedRepository, settings.Validated)
		return err
	})
}

// DeleteGitSettings removes the settings of an account. None is no error.
func (s *Store) DeleteGitSettings(ctx context.Context, accountID string) error {
	return s.write(ctx, func(c *call) error {
		_, err := c.exec("DELETE FROM git_settings WHERE account_id = $1", accountID)
		return err
	})
}
